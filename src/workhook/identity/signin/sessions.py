"""Sessions, and one-time links to sign in or set a password. Only digests of their secrets are stored."""

from __future__ import annotations

import secrets
from typing import NamedTuple

import sqlalchemy as sa

from workhook.core.clock import DAY_MS, MINUTE_MS, now_ms
from workhook.identity import administrators
from workhook.identity.queries import account_columns
from workhook.identity.schemas import Account, account_of
from workhook.identity.tables import accounts, audit_log, sessions, sign_in_links
from workhook.identity.tokens import one_time
from workhook.identity.tokens.issue import digest_of
from workhook.identity.tokens.one_time import SecretLink
from workhook.storage import Database, Reader, Row, Transaction
from workhook.storage.metadata import bigint_param

IDLE_MS = 14 * DAY_MS
ABSOLUTE_MS = 90 * DAY_MS
SEEN_NOTED_MS = 10 * MINUTE_MS  # a write per page would cost more than the page
AGENT_MAX_CHARS, ADDRESS_MAX_CHARS = 300, 64  # a proxy may pass anything as an address
_SECRET_BYTES = 32

_session = (sessions.c[name].label(f"session_{name}") for name in ("id", "created_at", "seen_at"))
_find = (
    sa.select(*_session, administrators.is_one.label("is_administrator"), *account_columns("user_"))
    .join_from(sessions, accounts, accounts.c.id == sessions.c.user_id)
    .where(
        sessions.c.digest == sa.bindparam("digest"),
        sessions.c.expires_at > bigint_param("now"),
        accounts.c.kind == "user",
        accounts.c.disabled_at.is_(None),
    )
)
_alive = sa.select(sessions.c.id).where(
    sessions.c.id == bigint_param("session_id"), sessions.c.expires_at > bigint_param("now")
)
_note_seen = (
    sa.update(sessions)
    .where(sessions.c.id == bigint_param("session_id"))
    .values(seen_at=bigint_param("now"), expires_at=bigint_param("expires_at"))
)
_of_user = (
    sa.select(sessions.c.id, sessions.c.created_at, sessions.c.seen_at, sessions.c.address, sessions.c.user_agent)
    .where(sessions.c.user_id == bigint_param("user_id"), sessions.c.expires_at > bigint_param("now"))
    .order_by(sessions.c.seen_at.desc(), sessions.c.id.desc())
)
_other_user = sa.select(accounts.c.id).where(accounts.c.kind == "user", accounts.c.id != bigint_param("user_id"))
_other_user = _other_user.limit(1)
_did = (audit_log.c.account_id == bigint_param("user_id"), audit_log.c.action == "user.sign_in")
_sign_in = sa.select(audit_log.c.id).where(*_did, audit_log.c.status.is_(None)).limit(1)
_end = sa.delete(sessions).where(
    sessions.c.id == bigint_param("session_id"), sessions.c.user_id == bigint_param("user_id")
)
_end_by_digest = sa.delete(sessions).where(sessions.c.digest == sa.bindparam("digest"))
_end_others = sa.delete(sessions).where(
    sessions.c.user_id == bigint_param("user_id"), sessions.c.id != bigint_param("session_id")
)
_forget = sa.delete(sessions).where(
    sessions.c.user_id == bigint_param("user_id"), sessions.c.expires_at <= bigint_param("now")
)


class ActiveSession(NamedTuple):
    """A valid session. Times are milliseconds since the epoch."""

    id: int
    user: Account
    created_at: int
    seen_at: int
    is_administrator: bool


async def is_first_user(reader: Reader, user_id: int) -> bool:
    """Return whether the user is the only one of the server and has never signed in."""
    if await reader.fetch_one(_other_user, {"user_id": user_id}) is not None:
        return False
    return await reader.fetch_one(_sign_in, {"user_id": user_id}) is None


async def start(tx: Transaction, user: Account, *, address: str | None, user_agent: str | None) -> tuple[int, str]:
    """Start a session. Returns its ID and the secret for its cookie; only the secret's digest is stored."""
    secret, now = secrets.token_urlsafe(_SECRET_BYTES), now_ms()
    params = {
        "digest": digest_of(secret),
        "user_id": user.id,
        "created_at": now,
        "seen_at": now,
        "expires_at": now + IDLE_MS,
        "address": address[:ADDRESS_MAX_CHARS] if address else None,
        "user_agent": user_agent[:AGENT_MAX_CHARS] if user_agent else None,
    }
    await tx.execute(_forget, {"user_id": user.id, "now": now})
    return await tx.insert(sessions, params), secret


async def find(reader: Reader, secret: str) -> ActiveSession | None:
    """Return a session, or None if it is unknown, ended or idle, or its user is disabled."""
    row = await reader.fetch_one(_find, {"digest": digest_of(secret), "now": now_ms()})
    if row is None:
        return None
    return ActiveSession(
        row["session_id"],
        account_of(row, "user_"),
        row["session_created_at"],
        row["session_seen_at"],
        bool(row["is_administrator"]),
    )


async def is_alive(reader: Reader, session_id: int) -> bool:
    return await reader.fetch_one(_alive, {"session_id": session_id, "now": now_ms()}) is not None


async def record_last_seen(database: Database, found: ActiveSession) -> None:
    """Extend the idle expiry, up to the absolute one. Most calls write nothing."""
    now = now_ms()
    if now - found.seen_at < SEEN_NOTED_MS:
        return
    expires_at = min(now + IDLE_MS, found.created_at + ABSOLUTE_MS)
    params = {"session_id": found.id, "now": now, "expires_at": expires_at}
    await database.in_transaction(lambda tx: tx.execute(_note_seen, params))


async def list_of(reader: Reader, user_id: int) -> list[Row]:
    """Return the user's sessions with `id`, `created_at`, `seen_at`, `address` and `user_agent`, most recent first."""
    return list(await reader.fetch_all(_of_user, {"user_id": user_id, "now": now_ms()}))


async def end(tx: Transaction, user_id: int, session_id: int) -> bool:
    """End one of the user's own sessions. Returns whether it existed."""
    return await tx.execute(_end, {"session_id": session_id, "user_id": user_id}) > 0


async def end_by_secret(tx: Transaction, secret: str) -> None:
    await tx.execute(_end_by_digest, {"digest": digest_of(secret)})


async def end_others(tx: Transaction, user_id: int, kept_id: int = 0) -> int:
    """End all of the user's sessions except `kept_id`. Returns how many were ended."""
    return await tx.execute(_end_others, {"user_id": user_id, "session_id": kept_id})


SIGN_IN, SET_PASSWORD = "sign_in", "set_password"  # not secrets
_LENGTH_MAX = 100

_good = (
    sign_in_links.c.digest == sa.bindparam("link_digest"),
    sign_in_links.c.used_at.is_(None),
    sign_in_links.c.expires_at > bigint_param("now"),
)
_link = (sign_in_links.c[name].label(f"link_{name}") for name in ("purpose", "expires_at"))
_find_link = (
    sa.select(*_link, *account_columns("user_"))
    .join_from(sign_in_links, accounts, accounts.c.id == sign_in_links.c.user_id)
    .where(*_good, accounts.c.kind == "user", accounts.c.disabled_at.is_(None))
)
_use = sa.update(sign_in_links).where(*_good).values(used_at=bigint_param("now"))
_end_of_user = (
    sa.update(sign_in_links)
    .where(sign_in_links.c.user_id == bigint_param("user_id"), sign_in_links.c.used_at.is_(None))
    .values(used_at=bigint_param("now"))
)


class SignInLink(NamedTuple):
    user: Account
    purpose: str
    expires_at: int


async def create_link(tx: Transaction, user_id: int, purpose: str, *, minutes: float) -> SecretLink:
    secret, good_ms = secrets.token_urlsafe(_SECRET_BYTES), round(minutes * MINUTE_MS)
    expires_at = await one_time.store(tx, sign_in_links, secret, good_ms, user_id=user_id, purpose=purpose)
    return SecretLink(f"/login/link/{secret}", expires_at)


async def find_link(reader: Reader, secret: str) -> SignInLink | None:
    """Return a link, or None if it is unknown, used or expired, or its user is disabled."""
    if len(secret) > _LENGTH_MAX:
        return None
    row = await reader.fetch_one(_find_link, {"link_digest": digest_of(secret), "now": now_ms()})
    return SignInLink(account_of(row, "user_"), row["link_purpose"], row["link_expires_at"]) if row else None


async def use_link(tx: Transaction, secret: str) -> bool:
    """Use up a link. Returns whether it was valid. Only one of two concurrent uses succeeds."""
    return await tx.execute(_use, {"link_digest": digest_of(secret), "now": now_ms()}) > 0


async def end_all(tx: Transaction, user_id: int) -> None:
    await end_others(tx, user_id)
    await tx.execute(_end_of_user, {"user_id": user_id, "now": now_ms()})
