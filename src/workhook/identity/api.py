"""What clients ask besides hooks: where things are, limits, and small talk. Who there is:
`identity.profile_api` and `identity.member_api`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from workhook import __version__
from workhook.events.catalog import LISTING
from workhook.events.ping_quotes import random_quote
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import WEBHOOK_API
from workhook.identity import graphql_api, member_api, profile_api
from workhook.identity.authenticator import caller_of

Template = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uri-template"})]


class Root(msgspec.Struct):
    """Where things are, as URL templates (RFC 6570)."""

    current_user_url: Template
    organization_url: Template
    repository_url: Template
    rate_limit_url: Template
    webhook_events_url: Template
    openapi_url: Template
    documentation_url: Template


class Meta(msgspec.Struct):
    """About this server."""

    verifiable_password_authentication: Annotated[
        bool, msgspec.Meta(description="Always false. Clients look for it to tell the kind of server.")
    ]
    installed_version: str
    hooks: Annotated[list[str], msgspec.Meta(description="Networks that deliveries come from: not told, so empty.")]


class Rate(msgspec.Struct):
    """How much of the request limit is left; a server without a limit answers very large numbers."""

    limit: Annotated[int, msgspec.Meta(ge=0, description="Requests an hour.")]
    used: Annotated[int, msgspec.Meta(ge=0)]
    remaining: Annotated[int, msgspec.Meta(ge=0)]
    reset: Annotated[int, msgspec.Meta(description="When the count starts anew: seconds since the epoch.")]
    resource: str


class Resources(msgspec.Struct):
    """All count the same; clients expect these names."""

    core: Rate
    search: Rate
    graphql: Rate
    integration_manifest: Rate


class RateLimit(msgspec.Struct):
    """`rate` is the same as `resources.core`."""

    resources: Resources
    rate: Rate


class EventType(msgspec.Struct):
    """An entry of the catalogue."""

    name: Annotated[str, msgspec.Meta(examples=["push"])]
    actions: Annotated[list[str], msgspec.Meta(description="Those that are known; a payload may carry others.")]
    description: str
    targets: Annotated[list[str], msgspec.Meta(description="Kinds of hook that may name it; `*` gets it anyway.")]
    schema: Annotated[
        dict[str, Any] | None, msgspec.Meta(description="JSON Schema of its payload, where Workhook makes it.")
    ]


routes = Routes(WEBHOOK_API, "support")


@routes.get("/")
async def root(call: Call) -> Root:
    """Where things are."""
    base = call.base
    web = base.removesuffix("/api/v3")
    return Root(
        current_user_url=f"{base}/user",
        organization_url=f"{base}/orgs/{{org}}",
        repository_url=f"{base}/repos/{{owner}}/{{repo}}",
        rate_limit_url=f"{base}/rate_limit",
        webhook_events_url=f"{base}/webhook-events",
        openapi_url=f"{web}/openapi.json",
        documentation_url=f"{web}/docs",
    )


@routes.get("/rate_limit", etag=False)
async def rate_limit(call: Call) -> RateLimit:
    """How many requests are left."""
    usage = caller_of(call).usage
    core, *others = (
        Rate(usage.limit, usage.used, usage.remaining, usage.reset, each) for each in Resources.__struct_fields__
    )
    return RateLimit(Resources(core, *others), core)


@routes.get("/zen", etag=False, media_type="text/plain", answers={200: {"type": "string"}})
async def zen(call: Call) -> Answer:
    """A short saying."""
    return Answer(random_quote().encode(), media_type="text/plain; charset=utf-8")


@routes.get("/meta")
async def meta(call: Call) -> Meta:
    """About this server."""
    return Meta(verifiable_password_authentication=False, installed_version=__version__, hooks=[])


@routes.get("/webhook-events", answers={200: list[EventType]})
async def webhook_events(call: Call) -> Answer:
    """The catalogue of events."""
    return Answer(LISTING)


OPERATIONS = (*routes, *profile_api.routes, *member_api.routes, *graphql_api.routes)
