"""Rendering of templates into responses, with their security headers."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from markupsafe import Markup

from workhook.core.errors import Problem
from workhook.http.calls import Response, current
from workhook.http.negotiation import compressed
from workhook.identity.mail import recipients
from workhook.web.frame import assets, cookies, formats, navigation, refusals, sessions, texts
from workhook.web.frame.texts import gettext, text

if TYPE_CHECKING:
    from jinja2 import Environment

_HTML = "text/html; charset=utf-8"
_HOST = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")


def page(
    name: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    form_action: Collection[str] = (),
    has_secret: bool = False,
    **context: object,
) -> Response:
    """Render the template `name` (in `web/templates`); everything in `context` is escaped.

    `form_action` lists other origins that the page's forms may lead to, including by redirects. `has_secret` disables
    compression for pages that show a secret (`http.negotiation`).
    """
    nonce = secrets.token_urlsafe(16)
    body = html(name, nonce=nonce, **context).encode()
    encoding: dict[str, str] = {}
    call = current()
    if call is not None and not has_secret:
        body, encoding = compressed(body, call.header("accept-encoding"))
    confined = {
        **encoding,
        "Content-Security-Policy": _policy(form_action, nonce),
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
    return Response(body, status, {**confined, **(headers or {})}, _HTML)


def html(name: str, **context: object) -> str:
    return _environment().get_template(name).render(context)


def plain(name: str, **context: object) -> str:
    """Render a plain-text template, without escaping."""
    return _plain_environment().get_template(name).render(context)


def problem_page(problem: Problem, request_id: str) -> Response:
    """Return the page of an error, with the navigation for signed-in users."""
    session, call, back = None if problem.code == "signed_out" else sessions.seen(), current(), ""
    # After a 403 the visitor may still see the project. After a 404 a link would reveal that it exists.
    if session and call and problem.status == _FORBIDDEN:
        parts = (call.request.path_params.get(name) for name in ("owner", "project"))
        back = "".join(f"/{each}" for each in parts if each)
    return page(
        "layout/problem.html",
        session=session,
        me=session and session.user,
        note=None,
        status=problem.status,
        headers=problem.headers,
        title=gettext(_TITLES.get(problem.status, _OTHER_TITLE)),
        message=problem.message,
        faults=problem.fault_messages,
        request_id=request_id,
        back=back,
    )


_FORBIDDEN = 403
_OTHER_TITLE = text("Something went wrong")
_TITLES = {
    400: text("Invalid request"),
    403: text("Access denied"),
    404: text("Page not found"),
    405: text("Action not available"),
    413: text("Too large"),
    429: text("Too many attempts"),
    500: text("Server error"),
    503: text("Temporarily unavailable"),
}


def _policy(form_action: Collection[str], nonce: str) -> str:
    actions = " ".join(dict.fromkeys(["'self'", *map(_source, form_action)]))
    return (
        f"default-src 'none'; script-src 'self' {assets.import_map_source()}; style-src 'self' 'nonce-{nonce}'; "
        "img-src 'self' data:; media-src 'self'; connect-src 'self'; frame-src 'self'; "
        f"form-action {actions}; frame-ancestors 'none'; base-uri 'none'"
    )


def _source(address: str) -> str:
    """Return the CSP source of a URL: its origin, or only its scheme.

    Custom schemes and IPv6 hosts, which CSP can't express, are reduced to the scheme. Raises `ValueError`.
    """
    parts = urlsplit(address)
    if not _SCHEME.fullmatch(parts.scheme):
        raise ValueError("the address of a form action needs a scheme")
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}" if _HOST.fullmatch(host) else f"{parts.scheme}:"


@cache
def _plain_environment() -> Environment:
    return _environment().overlay(autoescape=False)


@cache
def _environment() -> Environment:
    # Imported late, because few processes render pages.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("workhook.web"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    environment.policies["ext.i18n.trimmed"] = True
    environment.newstyle_gettext = True  # type: ignore[attr-defined]  # {% trans %} passes values to our functions
    environment.globals.update(_text_functions())
    environment.globals.update(
        static=assets.address,
        import_map=lambda: Markup(assets.import_map()),  # noqa: S704  # URLs of our own files
        language=texts.language,
        theme=texts.theme,
        places_of=navigation.places_of,
        places_of_organization=navigation.places_of_organization,
        languages=texts.LANGUAGES,
        sends_mail=recipients.sends_mail,
    )
    environment.filters.update(
        formats.FILTERS,
        masked=cookies.masked,
        said=refusals.in_words,
    )
    return environment


def _text_functions() -> dict[str, object]:
    """Return the gettext functions for templates. Messages are trusted, values are escaped.

    Jinja's own functions look up the context for each message, which took a fifth of a board's rendering time.
    """

    def filled(message: str, values: Mapping[str, object]) -> str:
        found = Markup(message)  # noqa: S704  # from our catalog
        return found % values if "%" in message else found

    def one(message: str, /, **values: object) -> str:
        return filled(texts.translations().gettext(message), values)

    def many(singular: str, plural: str, num: int, /, **values: object) -> str:
        return filled(texts.translations().ngettext(singular, plural, num), {"num": num, **values})

    def meant(context: str, message: str, /, **values: object) -> str:
        return filled(texts.pgettext(context, message), {"context": context, **values})

    def many_meant(context: str, singular: str, plural: str, num: int, /, **values: object) -> str:
        values = {"context": context, "num": num, **values}
        return filled(texts.translations().npgettext(context, singular, plural, num), values)

    return {"_": one, "gettext": one, "ngettext": many, "pgettext": meant, "npgettext": many_meant}
