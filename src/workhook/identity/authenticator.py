"""Authentication: finds the caller by the Authorization header and checks the policy."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec
import structlog

from workhook.core.caching import put_bounded
from workhook.core.clock import now_ms, to_utc_text
from workhook.core.errors import Forbidden, Problem, TooManyRequests, Unauthenticated, Unavailable
from workhook.http.calls import Call
from workhook.http.operations import OAUTH
from workhook.identity import invitations, policy, queries, rate
from workhook.identity.apps.credentials import authenticate_app, authenticate_client, basic_credentials
from workhook.identity.apps.schemas import App
from workhook.identity.schemas import Actor, Organization, Repository
from workhook.identity.tables import tokens
from workhook.identity.tokens.issue import KINDS, kind_of
from workhook.identity.tokens.lookup import Lookup
from workhook.storage import Database
from workhook.storage.batching import Batcher
from workhook.storage.database import ConditionFailed

log = structlog.get_logger(__name__)

T = TypeVar("T")

_BEARER = {"WWW-Authenticate": "Bearer"}


class Caller(msgspec.Struct, frozen=True):
    """The result of authentication in `Call.actor`: the caller, and the checked objects in the path.

    `app` authenticates as itself, with its JWT or client secret. `premise` is set if the repository was not read for
    this request, so that the commit must check it (`retry_on_changed_premise`).
    """

    actor: Actor | None
    usage: rate.Usage
    repository: Repository | None = None
    organization: Organization | None = None
    app: App | None = None
    premise: queries.Premise | None = None


class _Named(NamedTuple):
    """A repository by its path, and the user whose role is requested."""

    owner: str
    name: str
    user_id: int


_Found = tuple[Repository, queries.Premise]

PREMISES_MAX = 1000
RELYING_TRIES = 5


class Authenticator:
    """Authenticates requests for `http.routing`. One per process, because it caches tokens and counts requests."""

    def __init__(self, limiter: rate.RateLimiter, pages: rate.PageLimiter, database: Database) -> None:
        self._limiter, self._pages = limiter, pages
        self._lookup = Lookup(database)
        self._database = database
        self._repositories: Batcher[_Named, Repository | None] = _batch_finds(
            partial(queries.find_repository, database)
        )
        self._premise_reads: Batcher[_Named, _Found | None] = _batch_finds(partial(queries.find_premise, database))
        self._premises: OrderedDict[_Named, _Found] = OrderedDict()
        self._uses_noted: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, call: Call) -> None:
        access = call.operation.access
        area = call.operation.area
        if area.style == "page" and call.operation.method == "GET" and call.operation.counts:
            self._pages.count_address(call.address)
        if area.style == "page" or (area.style == "github" and not area.versioned):
            return  # pages have sessions; the server's own paths have no token and no limit
        rule = policy.RULES[access] if access else None
        try:
            actor, app = (None, None) if area is OAUTH else await self._identify(call, rule)
        except Unauthenticated as problem:
            await self._count(call, None, None)  # guesses count as requests without a token
            problem.headers.setdefault("WWW-Authenticate", "Bearer")
            raise
        call.actor = Caller(actor, rate.UNKNOWN, app=app)  # for refusals
        usage = await self._count(call, actor, app)
        if actor is not None:
            call.token_id = actor.token_id
            call.record.viewer.person_id = actor.user.id
            self._note_use(call, actor)
            if not KINDS[actor.token_kind].confined:
                call.answer_headers["X-OAuth-Scopes"] = ", ".join(sorted(actor.scopes))
            if actor.client_id is not None:
                call.answer_headers["X-OAuth-Client-Id"] = actor.client_id
            if actor.expires_at is not None:
                call.answer_headers["GitHub-Authentication-Token-Expiration"] = to_utc_text(actor.expires_at)
        if rule is None:
            call.actor = Caller(actor, usage, app=app)
            return
        if rule.target not in ("app", "client"):
            call.answer_headers["X-Accepted-OAuth-Scopes"] = policy.accepted(rule)
            if rule.permission:
                call.answer_headers["X-Accepted-GitHub-Permissions"] = "=".join(rule.permission)
        try:
            call.actor = await self._resolve(call, rule, actor, app, usage)
        except Forbidden:
            if usage.remaining == 0:  # clients would mistake a 403 with a 0 here for the request limit
                del call.answer_headers["X-RateLimit-Remaining"]
            raise

    async def close(self, within_s: float) -> None:
        """Stop listening for token changes, and write pending notes of use within `within_s` seconds."""
        self._lookup.close()
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=within_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        if late:
            log.warning("last_use_not_recorded", count=len(late), error="the database was not ready in time")

    async def _identify(self, call: Call, rule: policy.Rule | None) -> tuple[Actor | None, App | None]:
        """Return the caller, or None without credentials. Raises `Unauthenticated` for invalid ones."""
        header = call.header("authorization")
        if header is None:
            return None, None
        scheme, _, token = header.strip().partition(" ")
        token = token.strip()
        for_clients = rule is not None and rule.target == "client"
        if scheme.lower() == "basic":
            user, password = basic_credentials(header) or ("", "")
            if for_clients:
                client = await authenticate_client(call.database, user, password)
                if client is None:
                    raise Unauthenticated("Bad credentials", headers=_CHALLENGES["client"])
                return None, client
            token = password if kind_of(password) else user  # for programs that only support names and passwords
        elif scheme.lower() not in ("bearer", "token"):
            raise Unauthenticated("Bad credentials", headers=_BEARER)
        # Workhook's tokens contain no period. A JWT need not start with "eyJ": its JSON may have line breaks ("ewo…").
        elif token.count(".") == 2 and not for_clients:
            return None, await authenticate_app(call.database, token)
        found = await self._lookup.find(token)
        if found is None:
            raise Unauthenticated("Bad credentials", headers=_BEARER)
        return msgspec.structs.replace(
            found, address=call.address, need=rule.permission if rule else None, request=call.record
        ), None

    async def _repository(self, call: Call, actor: Actor) -> Repository | None:
        if "{repository_id}" in call.operation.path:
            return await queries.find_repository_by_id(call.database, call.path_integer("repository_id"), actor.user.id)
        return await self._repositories.submit(_Named(call.path("owner"), call.path("repo"), actor.user.id))

    async def _repository_on_premise(
        self, call: Call, rule: policy.Rule, actor: Actor
    ) -> tuple[Repository, queries.Premise]:
        """Return the repository in the path, possibly as read for an earlier request. A refusal never relies on that.

        Raises the same errors as `policy.check_repository`.
        """
        named = _Named(queries.key_of(call.path("owner")), queries.key_of(call.path("repo")), actor.user.id)
        known = self._premises.get(named)
        if known is not None and call.recheck is None and _is_admitted(known[0], rule, actor):
            self._premises.move_to_end(named)
            return known
        self._premises.pop(named, None)
        repository, premise = await self._premise_reads.submit(named) or (None, None)
        checked = policy.check_repository(repository, rule, actor)
        assert premise is not None, "what is not there was refused"
        put_bounded(self._premises, named, (checked, premise), PREMISES_MAX)
        return checked, premise

    def _note_use(self, call: Call, actor: Actor) -> None:
        now = now_ms()
        if now - max(self._uses_noted.get(actor.token_id, 0), actor.last_used_at or 0) < queries.USE_NOTED_MS:
            return
        if len(self._uses_noted) >= 100_000:
            self._uses_noted.clear()
        self._uses_noted[actor.token_id] = now
        task = asyncio.create_task(queries.record_use(self._database, tokens, actor.token_id, now))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _count(self, call: Call, actor: Actor | None, app: App | None) -> rate.Usage:
        # Reading the limit does not count, nor does a call that is checked again.
        count = 0 if call.operation.name == "rate_limit" or call.recheck is not None else 1
        caller = actor.counted_as if actor else f"app:{app.id}" if app else f"address:{call.address}"
        usage, within = await self._limiter.hit(caller, count=count)
        call.answer_headers.update(rate.headers(usage))
        if within:
            if count and (actor or app):
                call.unchanged = partial(self._unchanged, caller)
            return usage
        message = "API rate limit exceeded. Wait until the time in X-RateLimit-Reset."
        if call.operation.area.style == "github":
            raise Forbidden(message, code="rate_limited", headers={"Retry-After": str(usage.wait_s)})
        raise TooManyRequests(message, retry_after_s=usage.wait_s)

    def _unchanged(self, caller: str) -> dict[str, str]:
        """Return the headers of a 304 response, which normally does not count against the limit, as on GitHub."""
        usage = self._limiter.undo(caller)
        return rate.headers(usage) if usage else {}

    async def _resolve(
        self, call: Call, rule: policy.Rule, actor: Actor | None, app: App | None, usage: rate.Usage
    ) -> Caller:
        if rule.target in ("app", "client"):
            if app is None:
                raise Unauthenticated(_NEEDED[rule.target], headers=_CHALLENGES[rule.target])
            return Caller(None, usage, app=app)
        if app is not None:
            raise Unauthenticated(_NO_JWT, headers=_BEARER)
        if actor is None:
            raise Unauthenticated("Requires authentication", headers=_BEARER)
        policy.check_kind(actor, rule)
        repository = organization = premise = None
        if rule.target == "repository" and call.operation.relies:
            repository, premise = await self._repository_on_premise(call, rule, actor)
        elif rule.target == "repository":
            repository = policy.check_repository(await self._repository(call, actor), rule, actor)
        elif rule.target == "organization":
            by_id = "{organization_id}" in call.operation.path
            named = call.path_integer("organization_id") if by_id else call.path("org")
            found = await queries.find_organization(call.database, named, actor.user.id)
            if rule.role == "invited" and found is not None and found.role is None:
                login_key = queries.key_of(call.path("org"))
                waiting = await invitations.find_to_organization(call.database, actor.user, login_key)
                found = msgspec.structs.replace(found, is_invited=bool(waiting))
            organization = policy.check_organization(found, rule, actor)
        policy.check_token(actor, rule)
        return Caller(actor, usage, repository, organization, premise=premise)


def _batch_finds(find: Callable[[str, str, int], Awaitable[T]]) -> Batcher[_Named, T]:
    """Create a batcher that finds each repository once for all requests waiting for it."""

    async def find_each(named: Sequence[_Named]) -> list[T]:
        each_once = list(dict.fromkeys(named))
        found = await asyncio.gather(*(find(*each) for each in each_once))
        by_name = dict(zip(each_once, found, strict=True))
        return [by_name[each] for each in named]

    return Batcher(find_each, lambda named: named, rounds_max=8)


def _is_admitted(repository: Repository, rule: policy.Rule, actor: Actor) -> bool:
    """Return whether an earlier result admits the caller.

    A refusal leaves no trace in the request's record, because the place may now belong to someone else.
    """
    try:
        policy.check_repository(repository, rule, actor)
    except Problem:
        actor.request.clear_subject()
        return False
    return True


_NEEDED = {"app": "A JSON web token could not be decoded", "client": "Requires the client ID and secret of an app"}
_CHALLENGES = {"app": _BEARER, "client": {"WWW-Authenticate": 'Basic realm="Workhook"'}}  # RFC 9110, section 11.6.1
_NO_JWT = "Only operations of the app itself accept its JSON web token. Use an installation access token instead."


def caller_of(call: Call) -> Caller:
    caller = call.actor
    assert isinstance(caller, Caller), "the authenticator runs before every handler"
    return caller


async def retry_on_changed_premise(call: Call, act: Callable[[], Awaitable[T]]) -> T:
    """Run `act`, which commits on the caller's premise. Raises `Unavailable` if the premise keeps changing.

    If the premise no longer holds, or `act` is rejected, the caller is read again and `act` is retried, because a
    rejection must not be based on an earlier read.
    """
    for number in range(RELYING_TRIES):
        try:
            return await act()
        except ConditionFailed:
            await _check_again(call)
        except Forbidden:
            if number or caller_of(call).premise is None:
                raise
            await _check_again(call)
    raise Unavailable("The repository is being changed.", code="busy")


async def _check_again(call: Call) -> None:
    assert call.recheck is not None, "the authenticator ran before the handler"
    await call.recheck(call)


def actor_of(call: Call) -> Actor:
    actor = caller_of(call).actor
    assert actor is not None, "the operation's access is not None, so the authenticator has asked for a token"
    return actor


def named_organization(call: Call) -> Organization:
    found = caller_of(call).organization
    assert found is not None, "the operation's rule names an organization"
    return found


def named_repository(call: Call) -> Repository:
    found = caller_of(call).repository
    assert found is not None, "the operation's rule names a repository"
    return found


def app_of(call: Call) -> App:
    app = caller_of(call).app
    assert app is not None, "the operation's rule has the target app or client"
    return app
