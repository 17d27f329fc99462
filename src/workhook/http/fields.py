"""Types of fields that many answers have, with what JSON Schema says about them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from workhook.core.clock import to_millis_text
from workhook.core.records import LINK, MOMENT, JsonForm
from workhook.http.values import to_amount

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"}, examples=["2026-11-20T09:00:00Z"]), MOMENT]
"""UTC with `Z`, to the second or to the millisecond."""

Timestamp = Annotated[int, JsonForm(Time, to_millis_text), MOMENT]
"""Milliseconds since the epoch in a record, a `Time` to the millisecond in JSON."""

Minor = Annotated[int, JsonForm(int | float, to_amount)]
"""Hundredths in a record, a number with at most two decimals in JSON."""

Url = Annotated[str, Meta(extra_json_schema={"format": "uri"}), LINK]
"""An absolute URL that starts with the base the request came by."""

Unserved = Annotated[Url, Meta(description="For clients that insist on the key: nothing is served there.")]
"""A link that is there for its key alone."""
