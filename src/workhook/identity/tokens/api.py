"""`/user/tokens`: what stands for the caller, and new personal tokens.

A new token is not stored under an `Idempotency-Key`: the answer holds a secret, and secrets are stored nowhere.
"""

from __future__ import annotations

from workhook.http import parameters
from workhook.http.calls import NOT_KEPT, Answer, Call
from workhook.http.operations import AREA_B, Operation
from workhook.http.paging import PAGING, page_link, page_of
from workhook.identity.guard import actor_of
from workhook.identity.tokens import personal
from workhook.identity.tokens.schemas import CreatedToken, TokenCreate, TokenShape, created_token, token_shape

TAG = "tokens"
_RULE = "tokens"


async def create_token(call: Call) -> Answer:
    wanted = parameters.gather(TokenCreate, {}, await call.json_object(), resource="Token")
    actor = actor_of(call)
    made = await call.database.in_transaction(lambda tx: personal.create(tx, actor.user, wanted, actor))
    shape = created_token(made.details, call.base, made.issued.token)
    return Answer(shape, status=201, headers={"Location": shape.url, **NOT_KEPT})


async def list_tokens(call: Call) -> Answer:
    actor = actor_of(call)
    page, per_page = page_of(call)
    found, total = await personal.list_own(call.database, actor, limit=per_page, offset=(page - 1) * per_page)
    shapes = [token_shape(each, call.base, actor.token_id) for each in found]
    return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=total))


async def get_token(call: Call) -> Answer:
    actor = actor_of(call)
    found = await personal.find_own(call.database, actor, call.path_integer("token_id"))
    return Answer(token_shape(found, call.base, actor.token_id))


async def delete_token(call: Call) -> Answer:
    actor, token_id = actor_of(call), call.path_integer("token_id")
    await call.database.in_transaction(lambda tx: personal.revoke_own(tx, actor, token_id))
    return Answer(status=204)


_PATH = "/user/tokens"
_ONE = f"{_PATH}/{{token_id}}"
_TYPES = {"token_id": "integer"}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        AREA_B, "GET", _PATH, list_tokens, "tokens_list", "List the tokens that stand for you", _RULE, TAG,
        query=PAGING, answers={200: list[TokenShape]}, problems=(422,),
        description="Newest first: personal ones, and those that you let apps have, as far as they can do no more than "
        "the token that asks. Those that are revoked or over are gone.",
    ),
    Operation(
        AREA_B, "POST", _PATH, create_token, "tokens_create", "Make a personal token", _RULE, TAG,
        body=TokenCreate, answers={201: CreatedToken}, problems=(400, 413, 422), etag=False,
        description="It can do no more than the token that asks for it, ends no later, is revoked with it, and shares "
        f"its request limit. A user has at most {personal.LIVING_MAX} that are good.",
    ),
    Operation(
        AREA_B, "GET", _ONE, get_token, "tokens_get", "Get a token that stands for you", _RULE, TAG,
        answers={200: TokenShape}, path_types=_TYPES,
    ),
    Operation(
        AREA_B, "DELETE", _ONE, delete_token, "tokens_delete", "Revoke a token that stands for you", _RULE, TAG,
        answers={204: None}, path_types=_TYPES,
        description="Itself, or one that can do no more; with every token that was made with it. No process takes it "
        "from a second later on.",
    ),
)  # fmt: skip
