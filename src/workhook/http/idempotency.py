"""`Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header): a POST that is sent twice takes effect once.

The response is stored in the transaction of the change, so either both exist or neither does. After a crash between the
commit and the response, the client retries and gets the response that it missed.

The rights that the change required are stored with the response. For a caller who has since lost one of them, the
request is decided as if it were the first one, but nothing is changed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import DAY_MS, now_ms
from workhook.core.errors import Conflict, Invalid
from workhook.http.calls import Call, Place, Response
from workhook.storage import Database, Row, Transaction
from workhook.storage.database import UniqueViolation
from workhook.storage.metadata import Millis, bigint_param, insert_into, plain_table
from workhook.storage.sweeping import AgedRows

HEADER = "Idempotency-Key"
KEPT_MS = DAY_MS
PRUNE_BATCH = 1000
KEY_MAX_CHARS = 255
KEY_PATTERN = "[!-~]([ -~]*[!-~])?"  # printable ASCII; header values neither begin nor end with a space

idempotency_keys = plain_table(
    "idempotency_keys",
    sa.Column("token_id", sa.BigInteger, sa.ForeignKey("tokens.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    # SHA-256 of method, path, query and body, followed by the rights: JSON of [account ID, repository ID, rank] for
    # each
    sa.Column("fingerprint", sa.LargeBinary, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),  # of the response, which had status 200
    sa.Column("created_at", Millis, nullable=False, index=True),
)

_of_token = (idempotency_keys.c.token_id == bigint_param("token_id"), idempotency_keys.c.key == sa.bindparam("key"))
_find = sa.select(idempotency_keys.c.fingerprint, idempotency_keys.c.body, idempotency_keys.c.created_at).where(
    *_of_token
)
_forget = sa.delete(idempotency_keys).where(*_of_token, idempotency_keys.c.created_at < bigint_param("before"))
_store = insert_into(idempotency_keys, "token_id", "key", "fingerprint", "body", "created_at")
_by_age = AgedRows(idempotency_keys.c.created_at, idempotency_keys.c.token_id, idempotency_keys.c.key)

_in_flight: set[tuple[int, str]] = set()

Change = Callable[[Transaction], Awaitable[Response]]


async def write(call: Call, change: Change, *, content: bytes | None = None) -> Response:
    """Run `change` in one transaction and return its response, once per `Idempotency-Key`.

    `change` runs again if the database rolls the transaction back (`Database.in_transaction`). `content` replaces the
    body if its bytes differ between retries (the boundary of an upload). Raises `Invalid` for a key used with another
    request, `Conflict` while the first request is in progress or if the caller can no longer see its subject, and the
    errors of `change`. After an error nothing is stored.
    """
    key = call.header(HEADER) if call.operation.method == "POST" else None
    if key is None:
        return await call.database.in_transaction(partial(_changed, call, change))
    if len(key) > KEY_MAX_CHARS or not re.fullmatch(KEY_PATTERN, key):
        raise Invalid.at(HEADER, f"{HEADER} must be 1 to {KEY_MAX_CHARS} ASCII characters")
    token_id, fingerprint = call.token_id, _fingerprint(call, content)
    if (token_id, key) in _in_flight:
        raise _under_way()
    _in_flight.add((token_id, key))
    try:
        row = await call.database.fetch_one(_find, {"token_id": token_id, "key": key})
        if row is not None and _stands(row):
            return await _again(call, change, row, fingerprint)
        return await _once(call, change, token_id, key, fingerprint, forget=row is not None)
    finally:
        _in_flight.discard((token_id, key))


async def prune(database: Database, now: int) -> int:
    """Delete keys older than a day. Returns their number."""
    return await _by_age.delete(database, now - KEPT_MS, PRUNE_BATCH)


def _fingerprint(call: Call, content: bytes | None) -> bytes:
    scope = call.request.scope
    digest = hashlib.sha256()
    for part in (call.operation.method.encode(), scope["path"].encode(), scope["query_string"]):
        digest.update(len(part).to_bytes(8) + part)
    digest.update(call.read_body if content is None else content)
    return digest.digest()


def _under_way() -> Conflict:
    return Conflict(f"A request with this {HEADER} is in progress. Try again later.", code="idempotency_in_flight")


async def _changed(call: Call, change: Change, tx: Transaction) -> Response:
    call.made = None  # of an earlier attempt
    call.record.rights.clear()  # likewise
    answer = await change(tx)
    call.made = answer.body
    return answer


async def _once(call: Call, change: Change, token_id: int, key: str, fingerprint: bytes, *, forget: bool) -> Response:
    """Run the change and store its response. `forget` means that an expired entry for the key exists."""
    database = call.database
    answer: Response | None = None

    async def store(tx: Transaction) -> Response:
        nonlocal answer
        answer = None
        if forget:
            await tx.execute(_forget, {"token_id": token_id, "key": key, "before": now_ms() - KEPT_MS})
        answer = await _changed(call, change, tx)
        stored = fingerprint + json.encode([[*place, rank] for place, rank in call.record.rights.items()])
        params = {"token_id": token_id, "key": key, "fingerprint": stored, "created_at": now_ms()}
        tx.defer(_store, [{**params, "body": call.encode(answer.body)}])
        return answer

    try:
        return await database.in_transaction(store)
    except UniqueViolation:
        if answer is None:  # not because of the key
            raise
        # Another process was faster, and this transaction is rolled back.
        row = await database.fetch_one(_find, {"token_id": token_id, "key": key})
        if row is not None and _stands(row):
            return await _again(call, change, row, fingerprint)
        raise _under_way() from None


def _stands(row: Row) -> bool:
    return bool(row["created_at"] >= now_ms() - KEPT_MS)


async def _again(call: Call, change: Change, row: Row, fingerprint: bytes) -> Response:
    """Return the stored response. If the caller may no longer make the request, raises the error it would get now."""
    kept: bytes = row["fingerprint"]
    if kept[: len(fingerprint)] != fingerprint:
        message = f"{HEADER} was used with another request; a new request needs a new key"
        raise Invalid.at(HEADER, message, code="idempotency_key_reused")
    stored = json.decode(kept[len(fingerprint) :])
    rights: dict[Place, int] = {(account_id, repository_id): rank for account_id, repository_id, rank in stored}
    standing = await call.services.remaining_rights(call, rights) if rights else "gone"
    if standing != "whole":
        await _decide_again(call, change)
    if standing == "gone":
        message = f"You no longer have access to the result of this request. To repeat it, use a new {HEADER}."
        raise Conflict(message, code="rights_changed")
    return Response(row["body"], headers={"Idempotent-Replayed": "true"})


class _Undone(Exception):
    """Raised to roll back a trial."""


async def _decide_again(call: Call, change: Change) -> None:
    """Raise the error with which `change` would be rejected now. Its transaction is rolled back."""

    async def attempt(tx: Transaction) -> None:
        await _changed(call, change, tx)
        raise _Undone

    with suppress(_Undone, UniqueViolation):  # a conflict with the first request's rows is not a refusal
        await call.database.in_transaction(attempt)
    call.made = None
