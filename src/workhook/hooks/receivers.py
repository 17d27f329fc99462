"""The built-in receiver: an address on this server that a project's webhook can send to, and its requests.

The address contains a secret key; only its hash is stored. Anyone who knows it can send anything, so the stored
data is bounded, and each stored request states whether its signatures are valid. The signatures of GitHub
(`X-Hub-Signature-256`, `X-Hub-Signature`) and of Standard Webhooks (`webhook-signature`) are supported.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.errors import require_found
from workhook.core.urls import is_receiver_key
from workhook.core.vault import Vault
from workhook.events.hook_config import standard_key
from workhook.hooks import actions
from workhook.hooks.bodies import HookChange
from workhook.hooks.schemas import HOOK_COLUMNS, Hook, HookOwner, hook_from_row
from workhook.hooks.tables import arrivals, hooks, receivers
from workhook.identity.tables import projects
from workhook.identity.tokens.issue import digest_of
from workhook.storage import Database, Reader, Transaction
from workhook.storage.metadata import bigint_param, insert_into

KEPT = 50  # newest requests kept per receiver
BODY_MAX_BYTES = 1024 * 1024  # larger requests are rejected
BODY_KEPT_BYTES = 64 * 1024
HEADERS_KEPT_CHARS = 16 * 1024
HIDDEN = "********"
TOLERANCE_S = 300  # allowed deviation from the timestamp of a Standard Webhooks delivery

SignatureState = Literal["right", "wrong", "late", "missing"]
"""`late`: valid except for the timestamp. `missing`: no signature, or no secret to verify it."""

_NOT_KEPT = frozenset({"authorization", "cookie", "proxy-authorization"})

_insert = insert_into(receivers, "hook_id", "digest", "created_at")
_hooks = sa.select(*(hooks.c[name] for name in HOOK_COLUMNS)).join_from(
    receivers, hooks, hooks.c.id == receivers.c.hook_id
)
_by_key = _hooks.join(projects, projects.c.repository_id == hooks.c.repository_id).where(
    receivers.c.digest == sa.bindparam("digest", type_=sa.LargeBinary()), projects.c.deleted_at.is_(None)
)
_of_repository = (
    _hooks.where(hooks.c.repository_id == bigint_param("repository_id")).order_by(hooks.c.id.desc()).limit(1)
)
_add = insert_into(arrivals, "hook_id", "arrived_at", "signature", "headers", "body", "size")
_of_hook = arrivals.c.hook_id == sa.bindparam("hook_id", type_=sa.Integer())
_newest = sa.select(arrivals).where(_of_hook).order_by(arrivals.c.id.desc()).limit(KEPT)
_newest_ids = sa.select(arrivals.c.id).where(_of_hook).order_by(arrivals.c.id.desc()).limit(1)
_first_too_many = _newest_ids.offset(KEPT)
_remove_old = sa.delete(arrivals).where(_of_hook, arrivals.c.id <= bigint_param("upto"))


class Arrival(msgspec.Struct, frozen=True):
    """A received request. `body`: the beginning of the body; `size`: bytes of the whole body."""

    id: int
    arrived_at: int
    signature: SignatureState
    headers: list[tuple[str, str]]
    body: bytes
    size: int

    @property
    def event(self) -> str:
        return next((value for name, value in self.headers if name.lower().endswith("-event")), "")


async def create_receiver(write: actions.HookWrite, change: HookChange, key: str) -> Hook:
    """Create a webhook whose URL ends with the key, and its receiver. Raises the errors of `actions.create_hook`."""
    hook = await actions.create_hook(write, change)
    await write.tx.execute(_insert, {"hook_id": hook.id, "digest": digest_of(key), "created_at": hook.created_at})
    return hook


async def find_receiver(reader: Reader, owner: HookOwner) -> Hook | None:
    """Return the webhook of the project's newest receiver, or None."""
    if owner.repository_id is None:
        return None
    row = await reader.fetch_one(_of_repository, {"repository_id": owner.repository_id})
    return hook_from_row(row) if row else None


async def list_arrivals(reader: Reader, hook_id: int) -> list[Arrival]:
    found = []
    for row in await reader.fetch_all(_newest, {"hook_id": hook_id}):
        headers = [(name, value) for name, value in json.decode(row["headers"])]
        found.append(Arrival(row["id"], row["arrived_at"], row["signature"], headers, bytes(row["body"]), row["size"]))
    return found


async def find_newest_arrival(reader: Reader, hook_id: int) -> int:
    """Return the ID of the newest request, or 0 before the first."""
    row = await reader.fetch_one(_newest_ids, {"hook_id": hook_id})
    return row["id"] if row else 0


async def require_receiver(reader: Reader, key: str) -> Hook:
    """Return the webhook whose receiver has this key. Raises `NotFound`."""
    row = await reader.fetch_one(_by_key, {"digest": digest_of(key)}) if is_receiver_key(key) else None
    return hook_from_row(require_found(row))


async def add_arrival(
    database: Database, vault: Vault, hook: Hook, headers: list[tuple[str, str]], body: bytes
) -> SignatureState:
    """Store a request, delete the oldest beyond `KEPT`, and return the state of its signature."""
    now = now_ms()
    secrets = [vault.open(hook.secret)]
    if hook.previous_secret_until is not None and hook.previous_secret_until > now:
        secrets.append(vault.open(hook.previous_secret))
    by_name = {name.lower(): value for name, value in headers}
    state = check_signatures(by_name, body, [each for each in secrets if each], now // 1000)
    values = {
        "hook_id": hook.id, "arrived_at": now, "signature": state, "headers": json.encode(_kept_headers(headers)),
        "body": body[:BODY_KEPT_BYTES], "size": len(body),
    }  # fmt: skip

    async def add(tx: Transaction) -> None:
        await tx.execute(_add, values)
        old = await tx.fetch_one(_first_too_many, {"hook_id": hook.id})
        if old is not None:
            await tx.execute(_remove_old, {"hook_id": hook.id, "upto": old["id"]})

    await database.in_transaction(add)
    return state


def _kept_headers(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return as many headers as fit, with credentials hidden."""
    kept, size = [], 0
    for name, value in headers:
        size += len(name) + len(value)
        if size > HEADERS_KEPT_CHARS:
            break
        kept.append((name, HIDDEN if name.lower() in _NOT_KEPT else value))
    return kept


# --- signature verification, as performed by a receiver ---------------------------------------------------------------


def check_signatures(headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now_s: int) -> SignatureState:
    """Verify every signature present against the secrets. `headers` are keyed by lower-case name."""
    keys = [each.encode() for each in secrets]
    found = [
        _github(headers.get("x-hub-signature-256"), "sha256", body, keys),
        _github(headers.get("x-hub-signature"), "sha1", body, keys),
        _standard(headers, body, keys, now_s),
    ]
    states: set[SignatureState] = {each for each in found if each is not None}
    if not states or not keys:
        return "missing"
    return "wrong" if "wrong" in states else "late" if "late" in states else "right"


def _github(signature: str | None, name: str, body: bytes, keys: Sequence[bytes]) -> SignatureState | None:
    if signature is None:
        return None
    expected = (f"{name}={hmac.new(key, body, name).hexdigest()}" for key in keys)
    return "right" if any(_same(signature, each) for each in expected) else "wrong"


def _standard(headers: Mapping[str, str], body: bytes, keys: Sequence[bytes], now_s: int) -> SignatureState | None:
    signature = headers.get("webhook-signature")
    if signature is None:
        return None
    moment = headers.get("webhook-timestamp", "")
    signed = f"{headers.get('webhook-id', '')}.{moment}.".encode() + body
    macs = [hmac.new(standard_key(key) or key, signed, hashlib.sha256).digest() for key in keys]
    expected = ["v1," + base64.b64encode(each).decode() for each in macs]
    if not any(_same(each, right) for each in signature.split() for right in expected):
        return "wrong"
    is_now = moment.isascii() and moment.isdigit() and abs(int(moment[:15]) - now_s) <= TOLERANCE_S
    return "right" if is_now else "late"


def _same(signature: str, expected: str) -> bool:
    return hmac.compare_digest(signature.encode(), expected.encode())
