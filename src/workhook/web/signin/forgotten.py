"""A forgotten password: a link to set another one is sent to the person's e-mail address."""

from __future__ import annotations

from workhook.core.config import Settings
from workhook.core.errors import NotFound, TooManyRequests
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.identity.signin import passwords
from workhook.identity.signin.passwords import LOGIN_MAX_CHARS
from workhook.web.frame.render import page
from workhook.web.frame.sessions import form_key, read_form

routes = Routes(PAGES, "pages", etag=False)


def is_offered(settings: Settings) -> bool:
    """Without a mail server no link can be sent."""
    return settings.smtp_url is not None and settings.mail_from is not None


@routes.get("/login/forgotten")
async def page_forgotten(call: Call) -> Answer:
    """Ask for whom the link is."""
    _require_mail(call)
    return _form(call)


@routes.post("/login/forgotten", action="user.link_create")
async def page_forgotten_post(call: Call) -> Answer:
    """Send the link, and answer the same for whoever has no account."""
    _require_mail(call)
    fields = await read_form(call, None)
    login, settings = fields.get("login", "").strip(), call.services.settings
    if not login:
        return _form(call, status=422)
    try:
        await passwords.mail_password_link(
            call.database, call.services.vault, login, call.address, without_password=settings.oidc_issuer is None
        )
    except TooManyRequests as problem:
        call.refused = problem
        return _form(call, login, problem.message, status=429, headers=problem.headers)
    return page("signin/forgotten_sent.html", login=login[:LOGIN_MAX_CHARS], minutes=passwords.LINK_MINUTES)


def _require_mail(call: Call) -> None:
    if not is_offered(call.services.settings):
        raise NotFound()


def _form(
    call: Call, login: str = "", problem: str | None = None, *, status: int = 200, headers: dict[str, str] | None = None
) -> Answer:
    key = form_key(call)
    return page(
        "signin/forgotten.html", status=status, headers={**key.headers, **(headers or {})}, csrf=key.csrf,
        login=login[:LOGIN_MAX_CHARS], problem=problem,
    )  # fmt: skip
