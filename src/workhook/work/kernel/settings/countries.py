"""A parameter that is a country."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from workhook.core.country_codes import COUNTRIES
from workhook.http.parameters import Checked, Prepared


def _upper(text: str) -> str:
    return text.strip().upper() if text.isascii() else text


def _not_a_country(text: str) -> str | None:
    return None if text in COUNTRIES else "a country by its two letters (ISO 3166-1), such as DE"


Country = Annotated[
    str,
    Meta(description="Two letters of ISO 3166-1; an e-invoice needs it.", extra_json_schema={"pattern": "^[A-Z]{2}$"}),
    Prepared(_upper),
    Checked(_not_a_country),
]
"""Upper case inside and in answers."""
