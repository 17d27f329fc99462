"""`/organizations/{login}/usage`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from workhook.core.clock import now_ms, to_millis_text
from workhook.core.errors import Forbidden, NotFound
from workhook.http.calls import Call
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.http.wire_types import Time
from workhook.identity.authenticator import actor_of
from workhook.identity.queries import find_organization, key_of
from workhook.identity.schemas import Account, Actor
from workhook.identity.tokens.lookup import check_reach
from workhook.storage import Reader
from workhook.work.quota.counting import Limits, count


class UsageShape(msgspec.Struct):
    """What an organization has stored, the trash included."""

    bytes: Annotated[int, Meta(description="Bytes of its files and of the payloads of its events.")]
    bytes_limit: Annotated[int | None, Meta(description="`organization_max_mb` in bytes; null: no limit.")]
    rows: Annotated[int, Meta(description="Number of its records: tasks, comments, files, events and the like.")]
    rows_limit: Annotated[int | None, Meta(description="`organization_max_rows`; null: no limit.")]
    counted_at: Time


class UsageAnswer(msgspec.Struct):
    usage: UsageShape
    success: bool = True


routes = Routes(WORK_API, "Users", read="work.read", write="work.write")


@routes.get("/organizations/{login}/usage", etag=False)
async def get_organization_usage(call: Call, login: str) -> UsageAnswer:
    """Get how much an organization has stored.

    For owners of the organization. With your own login: what your own projects hold. It is counted anew each time.
    What was deleted counts until it leaves the trash after 30 days. 503 if counting takes too long.
    """
    account = await _owned(call.database, actor_of(call), login)
    limits = Limits.of(call.services.settings)
    usage = await count(call.database, account.id)
    shape = UsageShape(usage.bytes, limits.bytes or None, usage.rows, limits.rows or None, to_millis_text(now_ms()))
    return UsageAnswer(shape)


async def _owned(reader: Reader, actor: Actor, login: str) -> Account:
    """The organization, or the caller's own account. Raises `NotFound` for others, `Forbidden` for who is no owner."""
    if key_of(login) == key_of(actor.user.login):
        check_reach(actor, actor.user.id)
        return actor.user
    found = await find_organization(reader, login, actor.user.id)
    if found is None:
        raise NotFound()
    actor.request.touches(found.account.id, hidden=found.role is None)
    if found.role is None:
        raise NotFound()
    check_reach(actor, found.account.id)
    if found.role != "owner":
        raise Forbidden(f"Only an owner of {found.account.login} can see what it uses.", code="missing_role")
    return found.account
