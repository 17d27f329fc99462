"""Currencies as ISO 4217 names them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from workhook.http.parameters import Checked, Prepared

# The active codes of countries (ISO 4217, list one), without those of funds, metals and testing.
_ACTIVE = """
AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY COP
CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR
IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU
MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG
SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV
WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG
"""
CODES = frozenset(_ACTIVE.split())


def _upper(text: str) -> str:
    return text.strip().upper() if text.isascii() else text


def _not_a_currency(text: str) -> str | None:
    return None if text in CODES else "a currency of ISO 4217, such as EUR"


Currency = Annotated[
    str,
    Meta(description="ISO 4217; lower case is accepted.", extra_json_schema={"enum": sorted(CODES)}),
    Prepared(_upper),
    Checked(_not_a_currency),
]
"""Three upper-case letters inside and in answers."""
