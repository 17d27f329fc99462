"""The deliveries of a webhook: the list with filters, and each with its request and response."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from urllib.parse import urlencode

import msgspec

from workhook.core import json
from workhook.core.clock import now_ms, to_seconds_text
from workhook.core.errors import Fault, Invalid
from workhook.events.catalog import CATALOG
from workhook.hooks import actions, health, history
from workhook.hooks import redelivery as redelivery_jobs
from workhook.hooks.deliveries import find_delivery, list_deliveries, parse_filters
from workhook.hooks.history import Filters
from workhook.hooks.schemas import DeliveryDetail, DeliveryItem, Hook
from workhook.http.calls import Response
from workhook.http.lists import parse_cursor
from workhook.http.messages import disposition
from workhook.storage import Reader
from workhook.storage.index_ranges import IdRange
from workhook.web.frame.places import Visit
from workhook.web.frame.sessions import redirect
from workhook.web.frame.texts import gettext
from workhook.web.hooks import charts, outcomes, snippets
from workhook.web.hooks.forms import catalogue
from workhook.web.hooks.payloads import body_text, difference, pretty, visible
from workhook.web.hooks.site import HookPlaces, HookSite, hook_at, hook_page, limit_in_words

places = HookPlaces("delivery")
ATTEMPTS_MAX = 100


def states() -> dict[str, str]:
    return {
        "pending": gettext("queued for redelivery"),
        "retrying": gettext("retry scheduled"),
        "held": gettext("held back"),
        "delivered": gettext("delivered"),
        "given_up": gettext("no more retries"),
    }


@places.get("/{hook_id}/deliveries")
async def deliveries(visit: Visit, site: HookSite) -> Response:
    hook = await hook_at(visit)
    chosen = filter_of(visit)
    cursor = parse_cursor(visit.query("cursor") or None)
    retries = actions.retries_of(visit.call, hook)
    mark = await newest(visit, hook)  # before the rows, so that nothing in between is missed
    rows = await read_rows(visit.database, hook.id, chosen, cursor, retries)
    now, limit_s = now_ms(), visit.call.services.settings.delivery_timeout_s
    ids = [each.id for each in rows.items]
    own, common = catalogue(site.owner.target)
    tests, old, waiting, running = await asyncio.gather(
        history.find_test_deliveries(visit.database, hook.id, ids),
        history.repeated(visit.database, hook.id, ids),
        health.waiting(visit.database, hook),
        redelivery_jobs.find_running(visit.database, hook.id),
    )
    return await hook_page(
        visit, "hooks/deliveries.html", site, hook, status=422 if chosen.faults else 200, chosen=chosen, rows=rows,
        states=states(), events=list(CATALOG), charts=charts, outcomes=outcomes, mark=mark, first=cursor is None,
        tests=tests, now=now, utc=to_seconds_text(now)[11:16], old=old, limit_s=limit_s, own=own,
        common=common, test_event=visit.query("test"), waiting=waiting, running=running,
    )  # fmt: skip


@places.get("/{hook_id}/deliveries/newest")
async def newest_delivery(visit: Visit, site: HookSite) -> Response:
    """Return the ID of the newest delivery, by which a page notices new ones."""
    hook = await hook_at(visit)
    headers = {"Cache-Control": "no-store"}
    return Response((await newest(visit, hook)).encode(), headers=headers, media_type="text/plain; charset=utf-8")


async def newest(visit: Visit, hook: Hook) -> str:
    """Return the ID of the newest delivery, or 0."""
    rows = await history.page(
        visit.database, hook.id, Filters(), IdRange(), limit=1, newest_first=True, answered=history.ids
    )
    return str(rows[0]["id"]) if rows else "0"


@places.get("/{hook_id}/deliveries/{delivery_id}")
async def delivery(visit: Visit, site: HookSite) -> Response:
    hook = await hook_at(visit)
    return await _delivery_page(visit, site, hook)


async def _delivery_page(visit: Visit, site: HookSite, hook: Hook, *, waits_since: str = "") -> Response:
    """Show a delivery. `waits_since` is the mark at which the reader began to wait for another attempt."""
    mark = waits_since or await newest(visit, hook)  # before the reads, so that nothing in between is missed
    found = await _find(visit, hook, visit.call.path_integer("delivery_id"))
    attempts = await _attempts(visit, hook, found.guid)
    compared = None
    if visit.query("with"):
        other = await _find(visit, hook, visit.query_id("with") or 0)
        compared = await asyncio.to_thread(_compare, found, other)
    newer, older = await _neighbours(visit, hook, found.id)
    limit_s = visit.call.services.settings.delivery_timeout_s
    return await hook_page(
        visit, "hooks/delivery.html", site, hook, delivery=found, attempts=attempts, compared=compared,
        payload=pretty(found.request.payload) if found.request.payload else None,
        body=body_text(found.response.payload), curl=snippets.command(found), states=states(),
        charts=charts, outcomes=outcomes, now=now_ms(), visible=visible, waits=bool(waits_since), mark=mark,
        file=snippets.FILE, place=snippets.PASSWORD_PLACE, newer=newer, older=older,
        is_test=bool(await history.find_test_deliveries(visit.database, hook.id, [found.id])),
        is_old=bool(attempts) and attempts[-1].id > found.id, limit_s=limit_s,
    )  # fmt: skip


async def _neighbours(visit: Visit, hook: Hook, delivery_id: int) -> list[int | None]:
    """Return the next newer and the next older delivery of the webhook."""
    found: list[int | None] = []
    for within, newest_first in ((IdRange(low=delivery_id), False), (IdRange(high=delivery_id), True)):
        rows = await history.page(
            visit.database, hook.id, Filters(), within, limit=1, newest_first=newest_first, answered=history.ids
        )
        found.append(rows[0]["id"] if rows else None)
    return found


async def _find(visit: Visit, hook: Hook, delivery_id: int) -> DeliveryDetail:
    return await find_delivery(visit.database, hook.id, delivery_id, retries=actions.retries_of(visit.call, hook))


async def _attempts(visit: Visit, hook: Hook, guid: str) -> Sequence[DeliveryItem]:
    """Return all attempts to send the event to the webhook, oldest first."""
    retries = actions.retries_of(visit.call, hook)
    page = await list_deliveries(
        visit.database, hook.id, Filters(guid=guid), cursor=None, per_page=ATTEMPTS_MAX, retries=retries
    )
    return page.items[::-1]


def _compare(one: DeliveryDetail, other: DeliveryDetail) -> dict[str, object]:
    """Return what differs, such as the name and both values of each header."""
    newer, older = (one, other) if one.id > other.id else (other, one)
    payloads = [json.encode(each.request.payload).decode() for each in (newer, older)]
    return {
        "other": other,
        "request_headers": _different(one.request.headers, other.request.headers),
        "response_headers": _different(one.response.headers, other.response.headers),
        "payload": difference(*payloads) if payloads[0] != payloads[1] else [],
        "body": difference(newer.response.payload, older.response.payload),
    }


def _different(one: dict[str, str], other: dict[str, str]) -> list[tuple[str, str, str]]:
    names = dict.fromkeys([*one, *other])
    found = [(name, visible(one.get(name, "")), visible(other.get(name, ""))) for name in names]
    return [each for each in found if each[1] != each[2]]


@places.get("/{hook_id}/deliveries/{delivery_id}/payload.json")
async def payload_file(visit: Visit, site: HookSite) -> Response:
    """Download the body of a delivery exactly as it was sent and signed."""
    hook = await hook_at(visit)
    found = await _find(visit, hook, visit.call.path_integer("delivery_id"))
    return _file(snippets.body_of(found), snippets.FILE)


@places.get("/{hook_id}/deliveries/{delivery_id}/response.txt")
async def response_file(visit: Visit, site: HookSite) -> Response:
    """Download the stored part of a response body."""
    hook = await hook_at(visit)
    found = await _find(visit, hook, visit.call.path_integer("delivery_id"))
    return _file(found.response.payload.encode(), "response.txt")


def _file(body: bytes, name: str) -> Response:
    headers = {"Cache-Control": "no-store", **disposition(name)}
    headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return Response(body, headers=headers, media_type="application/octet-stream")


@places.post("/{hook_id}/deliveries/{delivery_id}/redeliver", action="delivery.redeliver")
async def redeliver(visit: Visit, site: HookSite) -> Response:
    """Redeliver a delivery and redirect to the new attempt."""
    hook = await hook_at(visit)
    delivery_id = visit.call.path_integer("delivery_id")
    attempts = await _attempts(visit, hook, (await _find(visit, hook, delivery_id)).guid)
    with limit_in_words():
        await visit.change(lambda write: actions.deliveries_redeliver(write, hook.id, delivery_id))
    return redirect(f"{site.address(hook.id)}/deliveries/{attempts[-1].id}/next")


@places.get("/{hook_id}/deliveries/{delivery_id}/next")
async def next_attempt(visit: Visit, site: HookSite) -> Response:
    """Redirect to the next attempt once it exists."""
    hook = await hook_at(visit)
    mark = await newest(visit, hook)
    found = await _find(visit, hook, visit.call.path_integer("delivery_id"))
    later = [each for each in await _attempts(visit, hook, found.guid) if each.id > found.id]
    if not later:
        return await _delivery_page(visit, site, hook, waits_since=mark)
    text = gettext("Redelivered successfully.")
    if not 200 <= later[0].status_code < 300:
        reason = outcomes.words(later[0].status)
        text = gettext("Redelivery failed: %(reason)s", reason=reason)
    return visit.done(f"{site.address(hook.id)}/deliveries/{later[0].id}", text)


@places.get("/{hook_id}/redeliveries/new", right="write")
async def ask_redeliver_many(visit: Visit, site: HookSite) -> Response:
    """Count the failed deliveries of a period and ask whether to redeliver them."""
    hook = await hook_at(visit)
    chosen = filter_of(visit)
    faults = _selection_faults(chosen)
    found = None if faults else await redelivery_jobs.forecast(visit.database, hook.id, _failures(chosen))
    return await hook_page(
        visit, "hooks/redeliver.html", site, hook, status=422 if faults else 200, chosen=chosen, faults=faults,
        found=found, events=list(CATALOG), utc=to_seconds_text(now_ms())[11:16],
    )  # fmt: skip


def _selection_faults(chosen: DeliveryFilter) -> list[Fault]:
    hint = chosen.event_hint
    return [*chosen.faults, *([Fault(field="event", message=hint)] if hint else [])]


def _failures(chosen: DeliveryFilter) -> Filters:
    return Filters(
        status="failure", event=chosen.filters.event, action=chosen.filters.action,
        since=chosen.filters.since, until=chosen.filters.until,
    )  # fmt: skip


@places.post("/{hook_id}/redeliveries", action="delivery.redeliver_many")
async def redeliver_many(visit: Visit, site: HookSite) -> Response:
    hook = await hook_at(visit)
    chosen = DeliveryFilter.of({**visit.fields, "status": "failure"})
    if faults := _selection_faults(chosen):
        raise Invalid(faults=faults)
    # A second one would be rejected, so show the progress of the first instead.
    if (running := await redelivery_jobs.find_running(visit.database, hook.id)) is not None:
        address = f"{site.address(hook.id)}/redeliveries/{running}"
        return visit.done(address, gettext("A redelivery is already in progress. Wait for it to finish."))
    with limit_in_words():
        job = await actions.redeliver_many(visit.call, hook.id, _failures(chosen))
    return redirect(f"{site.address(hook.id)}/redeliveries/{job.id}")


@places.get("/{hook_id}/redeliveries/{redelivery_id}")
async def redelivery(visit: Visit, site: HookSite) -> Response:
    hook = await hook_at(visit)
    job = await redelivery_jobs.find(visit.database, hook.id, visit.call.path_integer("redelivery_id"))
    ended = await redelivery_jobs.results(visit.database, job)
    return await hook_page(visit, "hooks/redelivery.html", site, hook, job=job, ended=ended, mark=_mark(job, ended))


def _mark(job: redelivery_jobs.Redelivery, ended: redelivery_jobs.Results) -> str:
    """Return a text that changes with the page; its last number is 0 once the redelivery has finished."""
    return f"{job.percent} {job.queued} {ended.succeeded} {ended.failed} {ended.waiting}"


@places.get("/{hook_id}/redeliveries/{redelivery_id}/progress")
async def progress(visit: Visit, site: HookSite) -> Response:
    hook = await hook_at(visit)
    job = await redelivery_jobs.find(visit.database, hook.id, visit.call.path_integer("redelivery_id"))
    text = _mark(job, await redelivery_jobs.results(visit.database, job))
    return Response(text.encode(), headers={"Cache-Control": "no-store"}, media_type="text/plain; charset=utf-8")


# --- filters ----------------------------------------------------------------------------------------------------------

PER_PAGE = 30
LOOKED_AT = history.SEARCHED_MAX  # deliveries scanned per page for a code or a text
TEXT_MAX = 255

_NAMES = ("status", "event", "action", "guid", "since", "until", "redelivery", "code", "q")
_MINUTES = len("2026-11-24T09:00")


class DeliveryFilter(msgspec.Struct):
    """The filter form and its parsed values."""

    given: dict[str, str]
    filters: Filters
    codes: range = range(0)
    text: str = ""
    faults: list[Fault] = []

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> DeliveryFilter:
        values = {name: fields[name].strip() for name in _NAMES if fields.get(name, "").strip()}
        found = cls(values, Filters(), text=values.get("q", "")[:TEXT_MAX])
        try:
            moments = {name: _moment(values[name]) for name in values.keys() & {"since", "until"}}
            found.filters = parse_filters({**_named(values), **moments})
        except Invalid as problem:
            found.faults = list(problem.faults)
        found.codes = _codes(values.get("code", ""))
        if values.get("code") and not found.codes:
            message = gettext("Enter a status code from 200 to 599, or a class such as 5xx.")
            found.faults.append(Fault(field="code", message=message))
        since, until = found.filters.since, found.filters.until
        if since is not None and until is not None and since > until:
            found.faults.append(Fault(field="until", message=gettext("The end can’t be before the start.")))
        return found

    def value(self, name: str) -> str:
        return self.given.get(name, "")

    @property
    def looks_into_rows(self) -> bool:
        """Return whether a filter without an index is set."""
        return bool(self.codes) or bool(self.text)

    def query(self, **more: str | None) -> str:
        """Return the filters as a query string such as `?status=failure&cursor=…`; empty without filters."""
        pairs = {**self.given, **{name: value for name, value in more.items() if value}}
        return f"?{urlencode(pairs)}" if pairs else ""

    def fault(self, name: str) -> str:
        return next((each.message or each.code for each in self.faults if each.field == name), "")

    @property
    def event_hint(self) -> str:
        """Return a hint about an unknown event; otherwise empty."""
        name = self.filters.event
        if not name or name in CATALOG:
            return ""
        near = get_close_matches(name.lower(), CATALOG, 3) or [each for each in CATALOG if each.startswith(name)][:3]
        message = gettext("Unknown event “%(event)s”.", event=name)
        asked = gettext("Did you mean %(events)s?", events=", ".join(near))
        return f"{message} {asked}" if near else message


def _named(values: Mapping[str, str]) -> dict[str, str]:
    """Split an event such as `issues.opened` into an event and its action."""
    event, _, action = values.get("event", "").partition(".")
    event = event.lower() if event.lower() in CATALOG else event
    named = {**values, "event": event} if event else dict(values)
    return {"action": action, **named} if action else named


def _codes(text: str) -> range:
    """Return the status codes of a filter such as `404` or `4xx`; empty for anything else."""
    if re.fullmatch("[2-5](?i:xx)", text):
        first = int(text[0]) * 100
        return range(first, first + 100)
    return range(int(text), int(text) + 1) if re.fullmatch("[2-5][0-9]{2}", text) else range(0)


_JSON = re.compile(r'("(?:[^"\\]|\\.)*"?)|\s+')


def _moment(text: str) -> str:
    """Convert the value of `<input type="datetime-local">`, a time in UTC, to RFC 3339."""
    return f"{text}:00Z" if len(text) == _MINUTES else text if text.endswith("Z") or "+" in text else f"{text}Z"


def filter_of(visit: Visit) -> DeliveryFilter:
    return DeliveryFilter.of({name: visit.query(name) for name in _NAMES})


class Rows(msgspec.Struct, frozen=True):
    """A page of the list.

    `looked_at`: the number of scanned deliveries; `oldest`: when the last of them was made; `too_large`: the number of
    payloads that were not scanned.
    """

    items: list[DeliveryItem]
    next_cursor: str | None = None
    prev_cursor: str | None = None
    looked_at: int = 0
    oldest: str | None = None
    too_large: int = 0


async def read_rows(
    reader: Reader, hook_id: int, chosen: DeliveryFilter, cursor: int | None, retries: int | None
) -> Rows:
    """Return the matching deliveries, newest first. A filter without an index only scans the next `LOOKED_AT`."""
    if chosen.faults:
        return Rows([])
    per_page = LOOKED_AT if chosen.looks_into_rows else PER_PAGE
    page = await list_deliveries(reader, hook_id, chosen.filters, cursor=cursor, per_page=per_page, retries=retries)
    if not chosen.looks_into_rows:
        return Rows(page.items, page.next_cursor, page.prev_cursor)
    items = [each for each in page.items if not chosen.codes or each.status_code in chosen.codes]
    too_large = 0
    if chosen.text:
        # Payloads are sent as compact JSON.
        compact = _JSON.sub(lambda found: found[1] or "", chosen.text) if '"' in chosen.text else chosen.text
        matches = await history.find_text(reader, hook_id, [each.id for each in items], chosen.text, compact)
        items, too_large = [each for each in items if each.id in matches.ids], matches.too_large
    oldest = page.items[-1].delivered_at if page.items else None
    return Rows(items, page.next_cursor, page.prev_cursor, len(page.items), oldest, too_large)
