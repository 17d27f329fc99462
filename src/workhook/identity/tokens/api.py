"""`/user/tokens`: what stands for the caller, and new personal tokens.

A new token is not stored under an `Idempotency-Key`: the answer holds a secret, and secrets are stored nowhere.
"""

from __future__ import annotations

from workhook.http.calls import NOT_KEPT, Call
from workhook.http.endpoints import Created, Paged, Routes
from workhook.http.operations import WEBHOOK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.identity.tokens import personal
from workhook.identity.tokens.schemas import CreatedToken, TokenCreate, TokenDetails, TokenShape, token_shape
from workhook.storage.pages import Page

routes = Routes(WEBHOOK_API, "tokens", read="tokens", write="tokens", resource="Token")


def _shape(call: Call, actor: Actor, token: TokenDetails) -> TokenShape:
    return token_shape(TokenShape, token, call.base, current=token.id == actor.token_id)


@routes.get("/user/tokens")
async def tokens_list(call: Call, page: Page) -> Paged[list[TokenShape]]:
    """List the tokens that stand for you.

    Newest first: personal ones, and those that you let apps have, as far as they can do no more than the token that
    asks. Those that are revoked or over are gone.
    """
    actor = actor_of(call)
    found, total = await personal.list_own(call.database, actor, page)
    return Paged([_shape(call, actor, each) for each in found], total)


@routes.post(
    "/user/tokens",
    etag=False,
    description="It can do no more than the token that asks for it, ends no later, is revoked with it, and shares its "
    f"request limit. A user has at most {personal.LIVING_MAX} that are good.",
)
async def tokens_create(write: Write, wanted: TokenCreate) -> Created[CreatedToken]:
    """Make a personal token."""
    made = await personal.create(write.tx, write.actor.user, wanted, write.actor)
    shape = token_shape(CreatedToken, made.details, write.call.base, current=False, token=made.issued.token)
    return Created(shape, shape.url, NOT_KEPT)


@routes.get("/user/tokens/{token_id}")
async def tokens_get(call: Call, token_id: int) -> TokenShape:
    """Get a token that stands for you."""
    actor = actor_of(call)
    return _shape(call, actor, await personal.find_own(call.database, actor, token_id))


@routes.delete("/user/tokens/{token_id}")
async def tokens_delete(write: Write, token_id: int) -> None:
    """Revoke a token that stands for you.

    Itself, or one that can do no more; with every token that was made with it. No process takes it from a second later
    on.
    """
    await personal.revoke_own(write.tx, write.actor, token_id)
