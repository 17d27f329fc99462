"""The delivery history of a hook, and redeliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import MINUTE_MS, now_ms, parse_rfc3339, to_millis_text
from workhook.core.errors import Fault, Forbidden, Invalid, NotFound, must_be, require_found, say, shown
from workhook.core.text import counted
from workhook.events.hook_config import whole_number
from workhook.events.payloads import from_stored, to_show
from workhook.events.tables import events
from workhook.hooks import history
from workhook.hooks.bodies import check_types
from workhook.hooks.fan_out import send_by_hand, wants
from workhook.hooks.history import Filters
from workhook.hooks.schemas import (
    DeliveryDetail,
    DeliveryItem,
    DeliveryRequest,
    DeliveryResponse,
    Hook,
    HookOwner,
    installation_to_response,
)
from workhook.hooks.tables import deliveries, dispatches, hooks, lanes
from workhook.http.lists import cursor_at
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.index_ranges import IdRange
from workhook.storage.metadata import bigint_param
from workhook.storage.signals import DUE

IDS_MAX = 1000
TOO_MANY = "secondary_rate_limit"
_AS_STORED = ("id", "guid", "status", "status_code", "event", "action", "installation_id", "repository_id")

_installation = sa.select(hooks.c.installation_id).where(hooks.c.id == deliveries.c.hook_id).scalar_subquery()
_sent = (deliveries.c[name] for name in ("url", "request_headers", "response_headers", "response_body"))
_detail = (
    sa.select(*history.items(deliveries), *_sent, events.c.payload, _installation.label("hook_installation_id"))
    .join_from(deliveries, events, events.c.id == deliveries.c.event_id, isouter=True)
    .where(deliveries.c.hook_id == bigint_param("hook_id"), deliveries.c.id == bigint_param("delivery_id"))
)
_dispatch_of = sa.select(deliveries.c.dispatch_id).where(
    deliveries.c.hook_id == bigint_param("hook_id"), deliveries.c.id == bigint_param("delivery_id")
)
_in_order = (
    sa.select(dispatches.c.id)
    .where(any_of(dispatches.c.id, "dispatch_ids"), dispatches.c.hook_id == bigint_param("hook_id"))
    .order_by(dispatches.c.id)
    .with_for_update()
    .cte("in_order")
)
_again = (
    sa.update(dispatches)
    .where(dispatches.c.id.in_(sa.select(_in_order.c.id)))
    .values(wanted=dispatches.c.wanted + 1, retries=0, next_attempt_at=bigint_param("now"))  # a new schedule of retries
)
# In bulk, each is sent only once however often it is requested: already waiting dispatches are left alone.
_again_once = _again.where(dispatches.c.wanted == sa.literal(0, sa.Integer))
_count_manual = (
    sa.update(lanes)
    .where(lanes.c.hook_id == bigint_param("hook_id"))
    .values(
        manual_count=sa.case((lanes.c.manual_minute == bigint_param("minute"), lanes.c.manual_count + 1), else_=1),
        manual_minute=bigint_param("minute"),
    )
    .returning(lanes.c.manual_count)
)
_latest_push = (
    sa.select(events.c.payload, events.c.installation_id)
    .where(
        events.c.repository_id == bigint_param("repository_id"), events.c.name == "push", events.c.listed == sa.true()
    )
    .order_by(events.c.id.desc())
    .limit(sa.literal(1, sa.BigInteger))
)


def parse_selection(body: Mapping[str, Any]) -> Filters:
    """Parse which deliveries to redeliver; an empty body selects the failed ones. Raises `Invalid` listing every fault.

    Unknown filters are errors, because ignoring one would redeliver more than intended.
    """
    kinds = {"status": str, "since": str, "until": str, "event": str, "ids": list}
    check_types(body, {name: kinds[name] for name in body if name in kinds}, nullable=kinds)
    if unknown := [shown(name) for name in body if name not in kinds]:
        raise Invalid(faults=[Fault(field=name, message=f"Invalid filter: {name}") for name in unknown])
    values = {name: value for name, value in body.items() if value is not None}
    return parse_filters(values or {"status": "failure"})


def parse_filters(values: Mapping[str, Any]) -> Filters:
    """Parse filters given as strings; `redelivery` may also be a boolean, `ids` is a list. Raises `Invalid`."""
    filters, faults = Filters(), []
    for name in ("event", "action", "guid"):
        if (text := values.get(name)) is not None:
            setattr(filters, name, text)
            if "\0" in text:
                faults.append(Fault(field=name, message=say("{} must not contain NUL", name)))
    if (status := values.get("status")) is not None:
        filters.status = status
        if status not in ("success", "failure"):
            faults.append(Fault(field="status", message="status must be success or failure"))
    if (flag := values.get("redelivery")) is not None:
        filters.redelivery = str(flag).lower() == "true"
        if str(flag).lower() not in ("true", "false"):
            faults.append(Fault(field="redelivery", message=must_be("redelivery", "true or false")))
    for name in ("since", "until"):
        if (text := values.get(name)) is not None:
            try:
                setattr(filters, name, parse_rfc3339(text))
            except ValueError:
                faults.append(Fault(field=name, message=say("{} must be a time such as 2026-11-20T09:00:00Z", name)))
    filters.ids = _parse_ids(values.get("ids"), faults)
    if faults:
        raise Invalid(faults=faults)
    return filters


def _parse_ids(ids: list[Any] | None, faults: list[Fault]) -> list[int] | None:
    if ids is None:
        return None
    whole = [whole_number(each) or 0 for each in ids]
    if 0 < len(ids) <= IDS_MAX and all(0 < each < 2**53 for each in whole):
        return whole
    faults.append(Fault(field="ids", message=f"ids must be an array of 1 to {IDS_MAX:,} delivery IDs"))
    return None


class DeliveryPage(msgspec.Struct):
    items: list[DeliveryItem]
    next_cursor: str | None
    prev_cursor: str | None


async def list_deliveries(
    reader: Reader,
    hook_id: int,
    filters: Filters,
    *,
    cursor: int | None,
    per_page: int,
    retries: int | None = None,
) -> DeliveryPage:
    """Return a page of deliveries, newest first. Raises `storage.slow.QueryTooSlow`.

    A cursor is the ID of the first delivery of its page. `retries`: the hook's number of retries, or None if unknown.
    """
    older = IdRange() if cursor is None else IdRange(high=cursor + 1)
    rows = await history.page(reader, hook_id, filters, older, limit=per_page + 1, newest_first=True)
    now = now_ms()
    items = [DeliveryItem(**_item_fields(row, retries, now), url="") for row in rows[:per_page]]
    newer: Sequence[Row] = ()
    if cursor is not None:
        later = IdRange(low=cursor)
        newer = await history.page(
            reader, hook_id, filters, later, limit=per_page, newest_first=False, answered=history.ids
        )
    cursors = [cursor_at(each[-1]) if each else None for each in (rows[per_page:], newer)]
    return DeliveryPage(items, *cursors)


async def list_newer(
    reader: Reader, hook_id: int, filters: Filters, *, after_id: int, limit: int
) -> list[DeliveryItem]:
    """Return at most `limit` deliveries with IDs above `after_id`, oldest first. Raises `storage.slow.QueryTooSlow`."""
    rows = await history.page(reader, hook_id, filters, IdRange(low=after_id), limit=limit, newest_first=False)
    now = now_ms()
    return [DeliveryItem(**_item_fields(row, None, now), url="") for row in rows]


def _item_fields(row: Row, retries: int | None, now: int) -> dict[str, Any]:
    throttled = row["throttled_at"]
    return {
        **{name: row[name] for name in _AS_STORED},
        "delivered_at": to_millis_text(row["delivered_at"]),
        "redelivery": bool(row["redelivery"]),
        "duration": round(row["duration_ms"] / 1000, 2),
        "throttled_at": None if throttled is None else to_millis_text(throttled),
        **history.dispatch_fields(row, retries, now),
    }


async def find_delivery(
    reader: Reader, hook_id: int, delivery_id: int, *, retries: int | None = None
) -> DeliveryDetail:
    """Return a delivery with its request and response. Raises `NotFound`."""
    row = require_found(await reader.fetch_one(_detail, {"hook_id": hook_id, "delivery_id": delivery_id}))
    payload = json.decode(to_show(row["payload"]))
    if payload and row["hook_installation_id"] is not None:  # as it was sent
        payload["installation"] = installation_to_response(row["hook_installation_id"])
    body = bytes(row["response_body"]).decode("utf-8", "replace")
    request = DeliveryRequest(json.decode(row["request_headers"]), payload)
    response = DeliveryResponse(json.decode(row["response_headers"]), body)
    fields = _item_fields(row, retries, now_ms())
    return DeliveryDetail(**fields, url=row["url"], request=request, response=response)


async def redeliver(tx: Transaction, hook_id: int, delivery_id: int, *, limit: int) -> None:
    """Redeliver one delivery with the same guid. Raises `NotFound`, or the errors of `count_manual`."""
    row = require_found(await tx.fetch_one(_dispatch_of, {"hook_id": hook_id, "delivery_id": delivery_id}))
    await count_manual(tx, hook_id, limit)
    if not await make_due(tx, hook_id, [row["dispatch_id"]]):
        raise NotFound()  # purged just now


async def make_due(tx: Transaction, hook_id: int, dispatch_ids: Sequence[int], *, once: bool = False) -> int:
    """Make dispatches due and return their number. With `once`, skip those already waiting."""
    tx.signal(DUE, {hook_id})
    again = _again_once if once else _again
    return await tx.execute(again, {"hook_id": hook_id, "dispatch_ids": list(dispatch_ids), "now": now_ms()})


async def count_manual(tx: Transaction, hook_id: int, limit: int) -> None:
    """Count a ping, a test or a redelivery. Raises `Forbidden` beyond `limit` per minute; 0 means no limit.

    GitHub's clients recognize a secondary rate limit by the status and this wording, wait, and try again.
    """
    now = now_ms()
    row = await tx.fetch_one(_count_manual, {"hook_id": hook_id, "minute": now // MINUTE_MS})
    if limit and row is not None and row["manual_count"] > limit:
        wait_s = (MINUTE_MS - now % MINUTE_MS) // 1000 + 1
        message = (
            f"You have exceeded a secondary rate limit: at most {limit} pings, tests, and redeliveries a minute for "
            f"one webhook. Try again in {counted(wait_s, 'second')}."
        )
        raise Forbidden(message, code=TOO_MANY, headers={"Retry-After": str(wait_s)})


async def send_test(tx: Transaction, owner: HookOwner, hook: Hook) -> None:
    """Send the repository's latest push to this hook only, if there is one and the hook subscribes to pushes."""
    row = await tx.fetch_one(_latest_push, {"repository_id": owner.repository_id})
    if row is None or not wants(hook.events, "push") or (payload := from_stored(row["payload"])) is None:
        return
    await send_by_hand(tx, owner.draft("push", None, json.decode(payload), row["installation_id"]), hook)
