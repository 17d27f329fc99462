"""Operations: each route is declared once, for the router, the authenticator and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

Handler = Callable[[Any], Awaitable[Any]]
"""Takes a `calls.Call` and returns a `calls.Response`."""

VERSIONS = ("2026-03-10", "2022-11-28")  # of the webhook API, newest first
VERSION_HEADERS = ("X-Service-Api-Version", "X-GitHub-Api-Version")


@dataclass(frozen=True)
class Query:
    """A query parameter as described in the OpenAPI document."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False
    json: bool = False  # the value is JSON


class Queries(tuple[Query, ...]):
    """The query parameters that a struct declares (`parameters.documented`), and the struct itself."""

    shape: type[msgspec.Struct]


@dataclass(frozen=True)
class Area:
    """Operations that share prefixes, an error format and a versioning policy."""

    name: str
    prefixes: tuple[str, ...]
    # "github": {message, documentation_url, status}; "envelope": {success: false, code, message …};
    # "oauth": {error, error_description}, created by the handlers; "page": HTML, for people with a session
    style: str
    versioned: bool = False
    # The handling of undeclared parameters (`http.routing`). "refused": 422 lists them. "ignored": they are ignored,
    # but a body must be JSON. "handler": each handler decides by the rules of its protocol (OAuth: RFC 6749; forms of
    # pages).
    undeclared: Literal["refused", "ignored", "handler"] = "handler"
    # The access to a GET, and to any other method, unless `Routes` or an operation overrides it (`Operation.access`).
    read: str | None = None
    write: str | None = None

    def request_headers(self, request_id: str) -> dict[str, str]:
        """Return the headers with the request ID. Terraform's `github_rest_api` data source needs GitHub's header."""
        own = {"X-Request-Id": request_id}
        return {**own, "X-GitHub-Request-Id": request_id} if self.style == "github" else own


WORK_API = Area("work", ("/api/v1",), "envelope", undeclared="refused", read="work.read", write="work.write")
WEBHOOK_API = Area("webhooks", ("", "/api/v3"), "github", versioned=True, undeclared="ignored")
GRAPHQL = Area("graphql", ("", "/api"), "github", versioned=True)  # where clients of the webhook API expect it
OAUTH = Area("oauth", ("",), "oauth")
PAGES = Area("pages", ("",), "page")
# Pages whose paths begin with a login, like those of GitHub's web app. They do not exist for programs, so that paths
# unknown to the webhook API remain a 404 in its own format.
PLACES = Area("places", ("",), "page")
SYSTEM = Area("system", ("",), "github")


def is_for_programs(area: Area) -> bool:
    """Return whether the document and the tables of rights include the area. Pages are for people."""
    return area.style != "page"


@dataclass(frozen=True)
class Operation:
    """A route with its handler and description.

    `access` names the row of the policy table that decides who may call it; None means that no token is required.
    """

    area: Area
    method: str
    path: str
    handler: Handler
    name: str  # unique; the operationId in the document
    summary: str
    access: str | None
    tag: str = ""
    action: str = ""  # its name in the audit log if it differs (`identity.audit`)
    body: Any = None  # a msgspec type or a JSON Schema
    body_required: bool = False
    body_media_type: str = "application/json"
    query: tuple[Query, ...] = ()
    answers: Mapping[int, Any] = field(default_factory=dict)  # status → msgspec type, JSON Schema, or None: no body
    problems: tuple[int, ...] = ()  # statuses besides those of all similar operations
    without: tuple[int, ...] = ()  # statuses that this operation never returns
    media_type: str = "application/json"
    counts: bool = True  # toward the rate limit of pages
    other_media_types: tuple[str, ...] = ()  # of text, selected by `Accept` for status 200
    etag: bool = True  # GETs only
    makes: bool = False  # a form whose second submission gets the first response
    for_people: bool = False  # also a page for browsers, but under /api
    relies: bool = False  # its commit checks the caller's role (`identity.authenticator.retry_on_changed_premise`)
    head: bool = True  # GETs only; False if a GET has side effects: HEAD must not (RFC 9110, 9.2.1)
    description: str = ""
    deprecated: bool = False
    path_types: Mapping[str, str] = field(default_factory=dict)  # name → "integer"; all others are strings

    @property
    def all_problems(self) -> set[int]:
        """Return the statuses of all errors that the operation can return."""
        found = {500, *self.problems}
        if self.area in (SYSTEM, OAUTH):
            return found
        found |= {401, 414, 503}  # an invalid token; a query of more than 8 KiB; no database
        found |= {400, 403} if self.area.versioned else {429}  # an unsupported version; rate limit reached
        if self.area.undeclared == "refused":
            found |= {400, 413, 415, 422}  # an unknown query parameter or body field
        elif self.area.undeclared == "ignored":
            found.add(413)  # even an unused body must be JSON
        if self.body is not None or self.query:
            found.add(422)
        if self.area is WORK_API and self.method == "POST":
            found |= {409, 422}  # an `Idempotency-Key` in use, or used with another request
        if self.area is WORK_API and self.method in ("PATCH", "DELETE"):
            found |= {409, 412}  # a conflicting state; a state other than that of `If-Match`
        if self.access is not None:
            found.add(403)
        if "{" in self.path:
            found.add(404)
        return found - {*self.without}
