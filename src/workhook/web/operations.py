"""Every page. None of them has a token: a session, or nothing, lets in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from workhook.http.calls import Answer, Call
from workhook.http.negotiation import prefers_page
from workhook.http.operations import PAGES, Handler, Operation
from workhook.web import home, links, login, render

_START: Mapping[str, Handler] = {"root": home.home}


def page_operation(
    method: str, path: str, name: str, summary: str, handler: Handler, *, head: bool = True
) -> Operation:
    """A page. Its problems are pages too (`http.routing`)."""
    return Operation(PAGES, method, path, handler, name, summary, None, "pages", etag=False, head=head)


def beside(operations: Iterable[Operation], pages: Mapping[str, Handler] = _START) -> Iterator[Operation]:
    """The API's operations, some of which show people a page: browsers ask for HTML by name, clients of the API do not.

    `pages`: by the operation's name.
    """
    for each in operations:
        shown = pages.get(each.name)
        yield replace(each, handler=_either(each.handler, shown), for_people=True) if shown else each


def _either(for_clients: Handler, for_people: Handler) -> Handler:
    async def either(call: Call) -> Answer:
        call.answer_headers["Vary"] = "Accept"
        is_person = not call.prefix and prefers_page(call.header("accept"), otherwise=False)
        answer: Answer = await (for_people if is_person else for_clients)(call)
        return answer

    return either


OPERATIONS: tuple[Operation, ...] = (
    Operation(PAGES, "GET", "/static/{name}", render.static, "page_static", "A file of the pages", None, "pages"),
    page_operation("GET", "/login", "page_login", "Signing in", login.show),
    page_operation("POST", "/login", "page_login_post", "Sign in", login.sign_in),
    page_operation("GET", "/login/continue", "page_login_continue", "On to where one came from", login.go_on),
    page_operation("POST", "/logout", "page_logout", "Sign out", login.sign_out),
    page_operation("GET", "/login/link/{token}", "page_link", "A link that signs in", links.show),
    page_operation("POST", "/login/link/{token}", "page_link_post", "Use the link", links.use),
    page_operation("GET", "/settings/password", "page_password", "Changing the password", home.show_password),
    page_operation("POST", "/settings/password", "page_password_post", "Change the password", home.change_password),
    page_operation(
        "POST", "/settings/sessions/{session_id}/end", "page_session_end", "End a session", home.end_session
    ),
    page_operation(
        "POST", "/settings/sessions/end-others", "page_sessions_end", "End all others", home.end_other_sessions
    ),
    page_operation("POST", "/settings/grants/{grant_id}/revoke", "page_grant", "Take a grant back", home.revoke_grant),
)
