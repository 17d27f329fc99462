"""The one GraphQL question that clients ask before anything else: who am I. There is no other GraphQL here."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import to_seconds_text
from workhook.core.errors import Malformed
from workhook.http.calls import Call
from workhook.http.endpoints import Routes
from workhook.http.operations import GRAPHQL
from workhook.identity.authenticator import actor_of
from workhook.identity.schemas import Account, account_shape

routes = Routes(GRAPHQL, "support")

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
    type: Annotated[str, Meta(description="For programs.", examples=["NOT_SUPPORTED"])]
    message: str


class GraphQLAnswer(msgspec.Struct):
    """As GraphQL has it: a question that cannot be answered has the status 200, too."""

    data: Annotated[dict[str, Any] | None, Meta(description="`{viewer: {…}}`; null with `errors`.")]
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
    """The names in `{ viewer { … } }`, with `query` and a name before it or not; None: it is another question."""
    words = [each for each in _TOKEN.findall(query[:_QUERY_MAX]) if each]
    if words[:1] == ["query"]:
        words = words[2:] if len(words) > 1 and words[1].isidentifier() else words[1:]
    names = words[3:-2]
    plain = words[:3] == ["{", "viewer", "{"] and words[-2:] == ["}", "}"] and all(map(str.isidentifier, names))
    return names if plain and names else None


@routes.post("/graphql", access="user", body=_BODY, body_required=True, problems=(413,), without=(422,), etag=False)
async def graphql(call: Call) -> GraphQLAnswer:
    """Who the caller is, for clients that ask in GraphQL.

    Other questions are answered with `errors`: there is no GraphQL API here.
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
