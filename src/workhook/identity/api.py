"""The API's root, metadata, limits and event catalog, and the single GraphQL query that clients send first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from workhook import __version__
from workhook.core import json
from workhook.core.clock import to_seconds_text
from workhook.core.errors import Malformed
from workhook.events.catalog import EVENT_TYPES
from workhook.events.samples import random_quote
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import GRAPHQL, VERSIONS, WEBHOOK_API
from workhook.http.wire_types import UNSERVED
from workhook.identity import members
from workhook.identity.authenticator import actor_of, caller_of
from workhook.identity.schemas import Account, account_to_response, web_base

Template = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uri-template"})]


_SERVED = {
    "current_user": "/user",
    "current_user_repositories": "/user/repos{?page,per_page}",
    "emails": "/user/emails",
    "organization": "/orgs/{org}",
    "organization_repositories": "/orgs/{org}/repos{?page,per_page}",
    "rate_limit": "/rate_limit",
    "repository": "/repos/{owner}/{repo}",
    "user": "/users/{user}",
    "user_organizations": "/user/orgs",
    "user_repositories": "/users/{user}/repos{?page,per_page}",
    "webhook_events": "/webhook-events",
}
_UNSERVED = {  # typed clients reject a response without them
    "authorizations": "/authorizations",
    "current_user_authorizations_html": "/settings/connections/applications{/client_id}",
    "code_search": "/search/code?q={query}",
    **{f"{kind}_search": f"/search/{kind}s?q={{query}}" for kind in ("commit", "issue", "label", "topic", "user")},
    "repository_search": "/search/repositories?q={query}",
    **{name: f"/{name}" for name in ("emojis", "events", "feeds", "gists", "hub", "issues", "notifications")},
    **{name: f"/user/{name}" for name in ("followers", "following", "keys", "starred")},
    "organization_teams": "/orgs/{org}/teams",
    "public_gists": "/gists/public",
    "starred_gists": "/gists/starred",
}

if TYPE_CHECKING:

    class Root(msgspec.Struct):
        """The URLs of this API, as URI templates (RFC 6570)."""

        def __init__(self, **links: str) -> None: ...
else:
    Root = msgspec.defstruct(
        "Root",
        [
            *((f"{name}_url", Template) for name in (*_SERVED, "openapi", "documentation")),
            *((f"{name}_url", Annotated[Template, msgspec.Meta(description=UNSERVED)]) for name in _UNSERVED),
        ],
        namespace={"__doc__": "The URLs of this API, as URI templates (RFC 6570)."},
        module=__name__,
    )


class Meta(msgspec.Struct):
    """Information about this server."""

    verifiable_password_authentication: Annotated[
        bool, msgspec.Meta(description="Always false; clients use it to detect the kind of server.")
    ]
    installed_version: str
    hooks: Annotated[list[str], msgspec.Meta(description="Networks of outgoing deliveries: always empty.")]


class Rate(msgspec.Struct):
    """The state of the request limit. A server without a limit returns very large numbers."""

    limit: Annotated[int, msgspec.Meta(ge=0, description="Requests an hour.")]
    used: Annotated[int, msgspec.Meta(ge=0)]
    remaining: Annotated[int, msgspec.Meta(ge=0)]
    reset: Annotated[int, msgspec.Meta(description="When the count resets, in seconds since the epoch.")]
    resource: str


class Resources(msgspec.Struct):
    """The rate limits under the names that clients expect. All of them share one count."""

    core: Rate
    search: Rate
    graphql: Rate
    integration_manifest: Rate


class RateLimit(msgspec.Struct):
    """`rate` equals `resources.core`."""

    resources: Resources
    rate: Rate


class EventType(msgspec.Struct):
    """An entry of the event catalog."""

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
    """List the URLs of this API."""
    web = web_base(call.base)
    links = {f"{name}_url": call.base + path for name, path in (_SERVED | _UNSERVED).items()}
    return Root(**links, openapi_url=f"{web}/openapi.json", documentation_url=f"{web}/docs")


@routes.get("/rate_limit", etag=False, action="rate_limit.get")
async def rate_limit(call: Call) -> RateLimit:
    """Get the rate limit status of the token."""
    usage = caller_of(call).usage
    core, *others = (
        Rate(usage.limit, usage.used, usage.remaining, usage.reset, each) for each in Resources.__struct_fields__
    )
    return RateLimit(Resources(core, *others), core)


@routes.get("/zen", etag=False, media_type="text/plain", answers={200: {"type": "string"}})
async def zen(call: Call) -> Response:
    """Get a random saying."""
    return Response(random_quote().encode(), media_type="text/plain; charset=utf-8")


@routes.get("/meta")
async def meta(call: Call) -> Meta:
    """Get information about this server."""
    return Meta(verifiable_password_authentication=False, installed_version=__version__, hooks=[])


@routes.get("/versions", answers={200: list[str]})
async def versions(call: Call) -> Response:
    """List the supported API versions, newest first."""
    return Response(json.encode(VERSIONS))


@routes.get("/webhook-events", answers={200: list[EventType]})
async def webhook_events(call: Call) -> Response:
    """List the available webhook events."""
    return Response(EVENT_TYPES)


graphql_routes = Routes(GRAPHQL, "support")

_TOKEN = re.compile(r"#[^\n]*|[\s,]+|(\w+|.)")
_QUERY_MAX = 2000
_UNKNOWN = (
    "This server has no GraphQL API; it only answers {{ viewer {{ {fields} }} }}, without arguments. For "
    "webhooks and identity, use the REST API: {base}/docs."
)


_BODY = {
    "type": "object",
    "required": ["query"],
    "properties": {"query": {"type": "string", "examples": ["{ viewer { login } }"]}},
}  # and further fields that clients send: variables, the operation's name


class GraphQLFault(msgspec.Struct):
    type: Annotated[str, msgspec.Meta(description="For programs.", examples=["NOT_SUPPORTED"])]
    message: str


class GraphQLAnswer(msgspec.Struct):
    """The response to a query. As usual in GraphQL, a query that cannot be answered has status 200, too."""

    data: Annotated[dict[str, Any] | None, msgspec.Meta(description="`{viewer: {…}}`; null with `errors`.")]
    errors: list[GraphQLFault] | UnsetType = UNSET


def _viewer(user: Account, base: str) -> dict[str, object]:
    shown = account_to_response(user, base)
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
    """Return the field names of a GraphQL query `[query [NAME]] { viewer { … } }`, or None for any other query."""
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
    """Get the caller through GraphQL.

    For clients that start with a GraphQL request. There is no GraphQL API: all other queries return `errors`.
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
