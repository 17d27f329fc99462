"""Turns the Authorization header into an actor and lets the call through, or not, by the policy table."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass

import structlog

from workhook.core.clock import MINUTE_MS, now_ms
from workhook.core.errors import Forbidden, Problem, TooManyRequests, Unauthenticated
from workhook.core.ids import token_checks_out
from workhook.http.calls import Call
from workhook.identity import policy, queries, rate
from workhook.identity.schemas import Actor, Organization, Repository, account_of
from workhook.storage import Database, Reader

log = structlog.get_logger(__name__)

PREFIXES = {"whp_": "classic"}
USE_NOTED_MS = 10 * MINUTE_MS
_BEARER = {"WWW-Authenticate": "Bearer"}


@dataclass(frozen=True)
class Caller:
    """What the guard leaves in `Call.actor`: who calls, and what the path names, already checked."""

    actor: Actor | None
    usage: rate.Usage
    repository: Repository | None = None
    organization: Organization | None = None


def digest_of(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


async def authenticate(reader: Reader, header: str | None, address: str | None) -> Actor | None:
    """None without a header. Raises `Unauthenticated` for a token that is not good (any more)."""
    if header is None:
        return None
    scheme, _, token = header.strip().partition(" ")
    token = token.strip()
    bad = Unauthenticated("Bad credentials", headers=_BEARER)
    if scheme.lower() not in ("bearer", "token"):
        raise bad
    prefix = next((each for each in PREFIXES if token.startswith(each)), None)
    if prefix is None or not token_checks_out(token, prefix):
        raise bad
    row = await queries.find_token(reader, digest_of(token))
    now = now_ms()
    if row is None or row["revoked_at"] is not None or (row["expires_at"] is not None and row["expires_at"] <= now):
        raise bad
    return Actor(
        user=account_of(row, "user_"),
        token_id=row["token_id"],
        token_kind=row["token_kind"],
        scopes=frozenset(row["scopes"].split()),
        address=address,
        last_used_at=row["last_used_at"],
    )


async def _write_use(database: Database, token_id: int, now: int) -> None:
    try:
        async with database.transaction() as tx:
            await queries.note_token_use(tx, token_id, now)
    except Problem as problem:
        log.warning("token_use_not_noted", token_id=token_id, reason=problem.message)


class Guard:
    """Callable by `http.routing`; one per process, since it counts requests."""

    def __init__(self, limiter: rate.RateLimiter) -> None:
        self._limiter = limiter
        self._noted: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, call: Call) -> None:
        access = call.operation.access
        if call.operation.area.style == "github" and not call.operation.area.versioned:
            return  # the system's own paths: no token, no limit
        try:
            actor = await authenticate(call.database, call.header("authorization"), call.address)
        except Unauthenticated:
            self._count(call, None)  # guessing uses up what callers without a token have
            raise
        usage = self._count(call, actor)
        if actor is not None:
            call.token_id = actor.token_id
            self._note_use(call, actor)
            call.answer_headers["X-OAuth-Scopes"] = ", ".join(sorted(actor.scopes))
        if access is None:
            call.actor = Caller(actor, usage)
            return
        rule = policy.RULES[access]
        if actor is None:
            raise Unauthenticated("Requires authentication", headers=_BEARER)
        call.answer_headers["X-Accepted-OAuth-Scopes"] = policy.accepted(rule)
        try:
            call.actor = await self._resolve(call, rule, actor, usage)
        except Forbidden:
            if usage.remaining == 0:  # clients take a 403 with a 0 here for the request limit, which it is not
                del call.answer_headers["X-RateLimit-Remaining"]
            raise

    def _note_use(self, call: Call, actor: Actor) -> None:
        """`last_used_at` is right to some minutes: a write a request would cost more than the request."""
        now = now_ms()
        if now - max(self._noted.get(actor.token_id, 0), actor.last_used_at or 0) < USE_NOTED_MS:
            return
        self._noted[actor.token_id] = now
        task = asyncio.create_task(_write_use(call.database, actor.token_id, now))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _count(self, call: Call, actor: Actor | None) -> rate.Usage:
        # Asking for the limit does not use it up; nor does a call that is checked again.
        count = 0 if call.operation.name == "rate_limit" or call.recheck is not None else 1
        usage, within = self._limiter.hit(actor.token_id if actor else call.address, count=count)
        call.answer_headers.update(rate.headers(usage))
        if within:
            return usage
        message = "API rate limit exceeded. Wait until the time in X-RateLimit-Reset."
        retry = {"Retry-After": str(max(1, usage.reset - now_ms() // 1000))}
        if call.operation.area.style == "github":
            raise Forbidden(message, code="rate_limited", headers=retry)
        raise TooManyRequests(message, headers=retry)

    async def _resolve(self, call: Call, rule: policy.Rule, actor: Actor, usage: rate.Usage) -> Caller:
        repository = organization = None
        if rule.target == "repository":
            found = await queries.find_repository(call.database, call.path("owner"), call.path("repo"), actor.user.id)
            repository = policy.check_repository(found, rule)
        elif rule.target == "organization":
            seen = await queries.find_organization(call.database, call.path("org"), actor.user.id)
            organization = policy.check_organization(seen, rule)
        policy.check_scopes(actor, rule)
        return Caller(actor, usage, repository, organization)


def caller_of(call: Call) -> Caller:
    """What the guard found, with its type."""
    caller = call.actor
    assert isinstance(caller, Caller), "the guard runs before every handler"
    return caller


def actor_of(call: Call) -> Actor:
    actor = caller_of(call).actor
    assert actor is not None, "the operation's access is not None, so the guard has asked for a token"
    return actor
