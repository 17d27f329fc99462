"""The API's root, metadata, limits and event catalogue, and the one GraphQL query that clients send first."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from workhook import __version__
from workhook.core.clock import to_seconds_text
from workhook.core.errors import Malformed
from workhook.events.catalog import LISTING
from workhook.events.samples import random_quote
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import GRAPHQL, WEBHOOK_API
from workhook.identity import members
from workhook.identity.authenticator import actor_of, caller_of
from workhook.identity.schemas import Account, account_shape

Template = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uri-template"})]


class Root(msgspec.Struct):
    """The addresses of this API, as URL templates (RFC 6570)."""

    current_user_url: Template
    organization_url: Template
    repository_url: Template
    rate_limit_url: Template
    webhook_events_url: Template
    openapi_url: Template
    documentation_url: Template


class Meta(msgspec.Struct):
    """Facts about this server."""

    verifiable_password_authentication: Annotated[
        bool, msgspec.Meta(description="Always false; clients use it to detect the kind of server.")
    ]
    installed_version: str
    hooks: Annotated[list[str], msgspec.Meta(description="Networks of outgoing deliveries: always empty.")]


class Rate(msgspec.Struct):
    """How much of the request limit is left; a server without a limit answers very large numbers."""

    limit: Annotated[int, msgspec.Meta(ge=0, description="Requests an hour.")]
    used: Annotated[int, msgspec.Meta(ge=0)]
    remaining: Annotated[int, msgspec.Meta(ge=0)]
    reset: Annotated[int, msgspec.Meta(description="When the count resets, in seconds since the epoch.")]
    resource: str


class Resources(msgspec.Struct):
    """All have the same count; clients expect these names."""

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
    actions: Annotated[list[str], msgspec.Meta(description="Known actions; payloads may contain others.")]
    description: str
    targets: Annotated[
        list[str],
        msgspec.Meta(description="Kinds of webhooks that can subscribe to it by name; `*` receives every event."),
    ]
    schema: Annotated[
        dict[str, Any] | None, msgspec.Meta(description="JSON Schema of the payload, for events of Workhook itself.")
    ]


routes = Routes(WEBHOOK_API, "support")


@routes.get("/")
async def root(call: Call) -> Root:
    """List the addresses of this API."""
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


@routes.get("/rate_limit", etag=False, action="rate_limit.get")
async def rate_limit(call: Call) -> RateLimit:
    """Get how many requests the token has left."""
    usage = caller_of(call).usage
    core, *others = (
        Rate(usage.limit, usage.used, usage.remaining, usage.reset, each) for each in Resources.__struct_fields__
    )
    return RateLimit(Resources(core, *others), core)


@routes.get("/zen", etag=False, media_type="text/plain", answers={200: {"type": "string"}})
async def zen(call: Call) -> Answer:
    """Get a short saying."""
    return Answer(random_quote().encode(), media_type="text/plain; charset=utf-8")


@routes.get("/meta")
async def meta(call: Call) -> Meta:
    """Get facts about this server."""
    return Meta(verifiable_password_authentication=False, installed_version=__version__, hooks=[])


@routes.get("/webhook-events", answers={200: list[EventType]})
async def webhook_events(call: Call) -> Answer:
    """List the events that exist."""
    return Answer(LISTING)


graphql_routes = Routes(GRAPHQL, "support")

_TOKEN = re.compile(r"#[^\n]*|[\s,]+|(\w+|.)")
_QUERY_MAX = 2000
_UNKNOWN = (
    "There is no GraphQL API here: only {{ viewer {{ {fields} }} }} is answered, without arguments. "
    "Webhooks and identity have a REST API, {base}/docs."
)


_BODY = {
    "type": "object",
    "required": ["query"],
    "properties": {"query": {"type": "string", "examples": ["{ viewer { login } }"]}},
}  # and what else clients send: variables, the name of the operation


class GraphQLFault(msgspec.Struct):
    type: Annotated[str, msgspec.Meta(description="For programs.", examples=["NOT_SUPPORTED"])]
    message: str


class GraphQLAnswer(msgspec.Struct):
    """As in GraphQL: a query that cannot be answered has the status 200, too."""

    data: Annotated[dict[str, Any] | None, msgspec.Meta(description="`{viewer: {…}}`; null with `errors`.")]
    errors: list[GraphQLFault] | UnsetType = UNSET


def _viewer(user: Account, base: str) -> dict[str, object]:
    shown = account_shape(user, base)
    return {
        "__typename": "User",
        "avatarUrl": shown.avatar_url,
        "createdAt": to_seconds_text(user.created_at),
        "databaseId": user.id,
        "email": user.email or "",
        "id": shown.node_id,
        "login": user.login,
        "name": user.name,
        "url": shown.html_url,
    }


def fields_of_viewer(query: str) -> list[str] | None:
    """Return the names in `{ viewer { … } }`, with or without `query` and a name before it; None for other queries."""
    words = [each for each in _TOKEN.findall(query[:_QUERY_MAX]) if each]
    if words[:1] == ["query"]:
        words = words[2:] if len(words) > 1 and words[1].isidentifier() else words[1:]
    names = words[3:-2]
    plain = words[:3] == ["{", "viewer", "{"] and words[-2:] == ["}", "}"] and all(map(str.isidentifier, names))
    return names if plain and names else None


@graphql_routes.post(
    "/graphql", access="user", body=_BODY, body_required=True, problems=(413,), without=(422,), etag=False
)
async def graphql(call: Call) -> GraphQLAnswer:
    """Get the caller, for clients that ask in GraphQL.

    There is no GraphQL API here: any other query is answered with `errors`.
    """
    query = (await call.json_object()).get("query")
    if not isinstance(query, str):
        raise Malformed("A query attribute must be specified and must be a string.")
    base = call.base.removesuffix(call.prefix)
    known, wanted = _viewer(actor_of(call).user, base), fields_of_viewer(query)
    if wanted is None or not known.keys() >= set(wanted):
        message = _UNKNOWN.format(fields=" ".join(known), base=base)
        return GraphQLAnswer(None, [GraphQLFault("NOT_SUPPORTED", message)])
    return GraphQLAnswer({"viewer": {name: known[name] for name in wanted}})


OPERATIONS = (*routes, *members.routes, *graphql_routes)
