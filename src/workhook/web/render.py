"""Pages: templates made into answers, with the headers that confine them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from workhook.core.clock import to_seconds_text
from workhook.core.errors import NotFound, Problem
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES

if TYPE_CHECKING:
    from jinja2 import Environment

_HTML = "text/html; charset=utf-8"
_STATIC = {"pages.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}
_HOST = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")

routes = Routes(PAGES, "pages")


def page(
    name: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    form_action: Collection[str] = (),
    **context: object,
) -> Answer:
    """The template `name` (in `web/templates`) as an answer; everything in `context` is escaped.

    `form_action`: addresses beside our own that a form of the page may lead to, by a redirect too.
    """
    body = _environment().get_template(name).render(context)
    confined = {
        "Content-Security-Policy": _policy(form_action),
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
    return Answer(body.encode(), status, {**confined, **(headers or {})}, _HTML)


def problem_page(problem: Problem, request_id: str) -> Answer:
    """What a browser is told instead of what it asked for."""
    faults = [each.message for each in problem.faults if each.message]
    return page(
        "problem.html",
        status=problem.status,
        headers=problem.headers,
        title=_TITLES.get(problem.status, "That did not work"),
        message=problem.message,
        faults=faults,
        request_id=request_id,
    )


_TITLES = {
    400: "That cannot be read",
    403: "That is not allowed",
    404: "There is nothing here",
    405: "That cannot be done here",
    413: "That is too much",
    429: "Too many attempts",
    500: "The server failed",
    503: "Not right now",
}


@routes.get("/static/{name}")
async def page_static(call: Call, name: str) -> Answer:
    """Send a file of `web/static`. Its address changes with its content, so that browsers may keep it for ever."""
    if name not in _STATIC:
        raise NotFound()
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Answer(_static_file(name), 200, headers, _STATIC[name])


def static_address(name: str) -> str:
    return f"/static/{name}?v={hashlib.sha256(_static_file(name)).hexdigest()[:12]}"


@cache
def _static_file(name: str) -> bytes:
    return files("workhook.web").joinpath("static", name).read_bytes()


def _policy(form_action: Collection[str]) -> str:
    actions = " ".join(dict.fromkeys(["'self'", *map(_source, form_action)]))
    return (
        f"default-src 'none'; style-src 'self'; img-src 'self'; form-action {actions}; frame-ancestors 'none'; "
        "base-uri 'none'"
    )


def _source(address: str) -> str:
    """What the policy calls an address: scheme, host and port, or the scheme alone where a policy cannot say more (a
    program's own scheme; an IPv6 address). Raises `ValueError`."""
    parts = urlsplit(address)
    if not _SCHEME.fullmatch(parts.scheme):
        raise ValueError("the address of a form action needs a scheme")
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}" if _HOST.fullmatch(host) else f"{parts.scheme}:"


@cache
def _environment() -> Environment:
    # Few processes ever show a page: the others do not pay for the library.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("workhook.web"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["static"] = static_address
    environment.filters["time"] = lambda at_ms: to_seconds_text(at_ms).replace("T", " ").replace("Z", " UTC")
    return environment
