"""An operation is one route, declared once: the router, the authenticator and the OpenAPI document all read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

Handler = Callable[[Any], Awaitable[Any]]
"""Takes a `calls.Call`, returns a `calls.Answer`."""

VERSIONS = ("2026-03-10", "2022-11-28")  # of the webhook API, the newest first
VERSION_HEADERS = ("X-Service-Api-Version", "X-GitHub-Api-Version")


@dataclass(frozen=True)
class Query:
    """A query parameter, as the document shows it."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False
    json: bool = False  # its text is JSON


class Queries(tuple[Query, ...]):
    """The query parameters that a struct declares (`parameters.documented`), and that struct."""

    shape: type[msgspec.Struct]


@dataclass(frozen=True)
class Area:
    """Operations that share prefixes, the shape of errors, and the rules for versions."""

    name: str
    prefixes: tuple[str, ...]
    # "github": {message, documentation_url, status}; "envelope": {success: false, code, message …};
    # "oauth": {error, error_description} by the handlers themselves; "page": HTML, for people with a session
    style: str
    versioned: bool = False
    # What becomes of a parameter that an operation does not declare (`http.routing`). "refused": 422 names it;
    # "ignored": it is left alone, but a body has to be JSON; "handler": each handler decides by the rules of its
    # protocol (OAuth: RFC 6749; forms of pages).
    undeclared: Literal["refused", "ignored", "handler"] = "handler"

    def request_headers(self, request_id: str) -> dict[str, str]:
        """Return headers that name the request. Terraform's `github_rest_api` is empty without GitHub's name for it."""
        own = {"X-Request-Id": request_id}
        return {**own, "X-GitHub-Request-Id": request_id} if self.style == "github" else own


WORK_API = Area("work", ("/api/v1",), "envelope", undeclared="refused")
WEBHOOK_API = Area("webhooks", ("", "/api/v3"), "github", versioned=True, undeclared="ignored")
GRAPHQL = Area("graphql", ("", "/api"), "github", versioned=True)  # where clients of the webhook API look for it
OAUTH = Area("oauth", ("",), "oauth")
PAGES = Area("pages", ("",), "page")
# Pages whose addresses begin with a login, as those of GitHub's web app do. Programs find nothing there, so that what
# the webhook API does not have stays a 404 in its own form.
PLACES = Area("places", ("",), "page")
SYSTEM = Area("system", ("",), "github")


def is_for_programs(area: Area) -> bool:
    """Tell whether the document and the tables of rights include the area: pages are for people."""
    return area.style != "page"


@dataclass(frozen=True)
class Operation:
    """`access` names the row of the policy table that decides who may call; None: no token is needed."""

    area: Area
    method: str
    path: str
    handler: Handler
    name: str  # unique; the document's operationId
    summary: str
    access: str | None
    tag: str = ""
    action: str = ""  # what the audit log calls it, where its own name does not say (`identity.audit`)
    body: Any = None  # a msgspec type, or a JSON Schema
    body_required: bool = False
    body_media_type: str = "application/json"
    query: tuple[Query, ...] = ()
    answers: Mapping[int, Any] = field(default_factory=dict)  # status → msgspec type, JSON Schema, or None: no body
    problems: tuple[int, ...] = ()  # statuses beside those that every operation of its kind can answer
    without: tuple[int, ...] = ()  # of these, those that this one cannot
    media_type: str = "application/json"
    counts: bool = True  # against the limit of requests for pages
    other_media_types: tuple[str, ...] = ()  # of text, by `Accept`, where the answer has status 200
    etag: bool = True  # GETs only
    makes: bool = False  # a form whose second submit is answered as the first one was
    for_people: bool = False  # also a page, for browsers, but under /api
    relies: bool = False  # its commit checks the caller's role (`identity.authenticator.relying`)
    head: bool = True  # GETs only; False where a GET changes something: HEAD must not (RFC 9110, 9.2.1)
    description: str = ""
    deprecated: bool = False
    path_types: Mapping[str, str] = field(default_factory=dict)  # name → "integer"; the rest are strings

    @property
    def all_problems(self) -> set[int]:
        """The statuses of every error that the operation can answer."""
        found = {500, *self.problems}
        if self.area in (SYSTEM, OAUTH):
            return found
        found |= {401, 414, 503}  # a token that is not good; a query of more than 8 KiB; no database
        found |= {400, 403} if self.area.versioned else {429}  # a version that is not served; no requests left
        if self.area.undeclared == "refused":
            found |= {400, 413, 415, 422}  # a query or a body that the operation does not take
        elif self.area.undeclared == "ignored":
            found.add(413)  # also an unused body has to be JSON
        if self.body is not None or self.query:
            found.add(422)
        if self.area is WORK_API and self.method == "POST":
            found |= {409, 422}  # an `Idempotency-Key` that is in use, or was used for another request
        if self.area is WORK_API and self.method in ("PATCH", "DELETE"):
            found |= {409, 412}  # a state in which it cannot be done; another one than `If-Match` names
        if self.access is not None:
            found.add(403)
        if "{" in self.path:
            found.add(404)
        return found - {*self.without}
