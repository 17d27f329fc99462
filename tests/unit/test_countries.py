"""The countries are those of ISO 3166-1."""

from __future__ import annotations

from babel import Locale

from workhook.core.country_codes import COUNTRIES

_NO_COUNTRIES = {*["AC", "CP", "CQ", "DG", "EA", "EU", "EZ", "IC", "QO", "TA", "UN", "XA", "XB", "XK", "ZZ"]}
"""What Babel knows besides: islands, unions and codes that are only reserved."""


def test_the_countries_are_those_that_babel_knows() -> None:
    known = {code for code in map(str, Locale("en").territories) if len(code) == 2 and code.isalpha()}
    assert known - COUNTRIES == _NO_COUNTRIES
    assert known >= COUNTRIES
