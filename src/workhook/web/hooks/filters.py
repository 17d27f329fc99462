"""The filters of a list of deliveries: those that the API has, which use an index, and two that are only tried on the
newest deliveries that fit these, the status code and a text in the payload."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec

from workhook.core.errors import Fault, Invalid
from workhook.hooks import payload_search
from workhook.hooks.deliveries import list_deliveries, parse_filters
from workhook.hooks.history import Filters
from workhook.hooks.records import DeliveryItem
from workhook.storage import Reader
from workhook.web.frame.places import Visit

PER_PAGE = 30
LOOKED_AT = payload_search.IDS_MAX  # deliveries of a page that are tried for a code or a text
TEXT_MAX = 255

_NAMES = ("status", "event", "action", "guid", "since", "until", "redelivery", "code", "q")
_MINUTES = len("2026-11-24T09:00")


class DeliveryFilter(msgspec.Struct):
    """What the form of the filters holds, and what it means."""

    given: dict[str, str]
    filters: Filters
    code: int | None = None
    text: str = ""
    faults: list[Fault] = []

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> DeliveryFilter:
        """From the fields of a form; empty ones are absent, others are ignored."""
        given = {name: fields[name].strip() for name in _NAMES if fields.get(name, "").strip()}
        found = cls(given, Filters(), text=given.get("q", "")[:TEXT_MAX])
        try:
            found.filters = parse_filters(
                {name: _moment(value) if name in ("since", "until") else value for name, value in _named(given).items()}
            )
        except Invalid as problem:
            found.faults = list(problem.faults)
        if code := given.get("code"):
            if code.isascii() and code.isdigit() and 200 <= int(code[:4]) <= 599:
                found.code = int(code)
            else:
                found.faults.append(Fault(field="code", message="code must be a number from 200 to 599"))
        return found

    def value(self, name: str) -> str:
        """Of a field as it was sent; empty without one."""
        return self.given.get(name, "")

    @property
    def looks_into_rows(self) -> bool:
        """Whether it has a filter without an index."""
        return self.code is not None or bool(self.text)

    def query(self, **more: str | None) -> str:
        """The query of an address with these filters: `?status=failure&cursor=…`; empty without any."""
        pairs = {**self.given, **{name: value for name, value in more.items() if value}}
        return f"?{urlencode(pairs)}" if pairs else ""

    def fault(self, name: str) -> str:
        """What is wrong with a field; empty if nothing is."""
        return next((each.message or each.code for each in self.faults if each.field == name), "")


def _named(given: Mapping[str, str]) -> dict[str, str]:
    """With the event `issues.opened`, as the list writes it, as an event and its action."""
    event, _, action = given.get("event", "").partition(".")
    return {"action": action, **given, "event": event} if action else dict(given)


_JSON = re.compile(r'("(?:[^"\\]|\\.)*"?)|\s+')


def _compact(text: str) -> str:
    """What is typed as a page shows JSON, as it is sent: without the spaces outside of its texts."""
    return _JSON.sub(lambda found: found[1] or "", text) if '"' in text else text


def _moment(text: str) -> str:
    """What `<input type="datetime-local">` sends has no zone: it is UTC, as the page says."""
    return f"{text}:00Z" if len(text) == _MINUTES else text if text.endswith("Z") or "+" in text else f"{text}Z"


def filter_of(visit: Visit) -> DeliveryFilter:
    return DeliveryFilter.of({name: visit.query(name) for name in _NAMES})


class Rows(msgspec.Struct, frozen=True):
    """A page of the list. `looked_at`: how many deliveries were tried for a code or a text, and `oldest`, when the last
    of them was made; `too_large`: how many payloads were not searched."""

    items: list[DeliveryItem]
    next_cursor: str | None = None
    prev_cursor: str | None = None
    looked_at: int = 0
    oldest: str | None = None
    too_large: int = 0


async def read_rows(
    reader: Reader, hook_id: int, chosen: DeliveryFilter, cursor: int | None, retries: int | None
) -> Rows:
    """The deliveries that fit, newest first. With a filter that has no index, those among the next `LOOKED_AT`."""
    if chosen.faults:
        return Rows([])
    per_page = LOOKED_AT if chosen.looks_into_rows else PER_PAGE
    page = await list_deliveries(reader, hook_id, chosen.filters, cursor=cursor, per_page=per_page, retries=retries)
    if not chosen.looks_into_rows:
        return Rows(page.items, page.next_cursor, page.prev_cursor)
    items = [each for each in page.items if chosen.code is None or each.status_code == chosen.code]
    too_large = 0
    if chosen.text:
        matches = await payload_search.find_text(
            reader, hook_id, [each.id for each in items], chosen.text, _compact(chosen.text)
        )
        items, too_large = [each for each in items if each.id in matches.ids], matches.too_large
    oldest = page.items[-1].delivered_at if page.items else None
    return Rows(items, page.next_cursor, page.prev_cursor, len(page.items), oldest, too_large)
