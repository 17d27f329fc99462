"""A parameter that is a currency."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from workhook.core.money import CURRENCIES
from workhook.http.parameters import Checked, Prepared


def _upper(text: str) -> str:
    return text.strip().upper() if text.isascii() else text


def _not_a_currency(text: str) -> str | None:
    return None if text in CURRENCIES else "a currency of ISO 4217, such as EUR"


Currency = Annotated[
    str,
    Meta(description="ISO 4217; lower case is accepted.", extra_json_schema={"enum": sorted(CURRENCIES)}),
    Prepared(_upper),
    Checked(_not_a_currency),
]
"""Three upper-case letters inside and in answers."""
