"""Currencies as ISO 4217 names them, and how many decimals an amount in each of them has."""

from __future__ import annotations

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
DEFAULT_CURRENCY = "USD"
"""Where nobody has said one."""

# The minor unit of ISO 4217 (list one, column "Mnr unt") of those that have not two decimals. Decision 54.
_WITHOUT = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
_THREE = "BHD IQD JOD KWD LYD OMR TND"
UNUSUAL_DIGITS = {**dict.fromkeys(_WITHOUT.split(), 0), **dict.fromkeys(_THREE.split(), 3)}
"""Decimals of the currencies that have not two."""
USUAL_DIGITS = 2
MOST_DIGITS = max(UNUSUAL_DIGITS.values())


def digits_of(currency: str) -> int:
    """How many decimals an amount has: its minor unit is the last of them."""
    return UNUSUAL_DIGITS.get(currency, USUAL_DIGITS)
