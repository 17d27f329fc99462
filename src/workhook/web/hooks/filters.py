"""The filters of a delivery list.

The filters of the API use an index. Two others, the status code and a text in the payload, scan the newest of the
remaining deliveries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from urllib.parse import urlencode

import msgspec

from workhook.core.errors import Fault, Invalid
from workhook.events.catalog import CATALOG
from workhook.hooks import history
from workhook.hooks.deliveries import list_deliveries, parse_filters
from workhook.hooks.history import Filters
from workhook.hooks.records import DeliveryItem
from workhook.storage import Reader
from workhook.web.frame.places import Visit
from workhook.web.frame.texts import gettext

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
        """Read the fields of a form."""
        values = {name: fields[name].strip() for name in _NAMES if fields.get(name, "").strip()}
        found = cls(values, Filters(), text=values.get("q", "")[:TEXT_MAX])
        try:
            found.filters = parse_filters(
                {
                    name: _moment(value) if name in ("since", "until") else value
                    for name, value in _named(values).items()
                }
            )
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


def _compact(text: str) -> str:
    """Convert indented JSON to the compact form in which it is sent."""
    return _JSON.sub(lambda found: found[1] or "", text) if '"' in text else text


def _moment(text: str) -> str:
    """Complete the value of `<input type="datetime-local">`, which is in UTC."""
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
        matches = await history.find_text(
            reader, hook_id, [each.id for each in items], chosen.text, _compact(chosen.text)
        )
        items, too_large = [each for each in items if each.id in matches.ids], matches.too_large
    oldest = page.items[-1].delivered_at if page.items else None
    return Rows(items, page.next_cursor, page.prev_cursor, len(page.items), oldest, too_large)
