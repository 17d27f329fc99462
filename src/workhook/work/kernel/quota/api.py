"""`/organizations/{login}/usage`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from workhook.core.clock import now_ms, to_millis_text
from workhook.http.calls import Call
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.http.wire_types import Time
from workhook.identity.authenticator import actor_of
from workhook.work.kernel.access import find_owned
from workhook.work.kernel.quota.counting import Limits, count


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
    account = await find_owned(call.database, actor_of(call), login, "see what it uses")
    limits = Limits.of(call.services.settings)
    usage = await count(call.database, account.id)
    shape = UsageShape(usage.bytes, limits.bytes or None, usage.rows, limits.rows or None, to_millis_text(now_ms()))
    return UsageAnswer(shape)
