"""IBAN, BIC, VAT ids and tax numbers: how they are written, and whether one can be right. Pure.

An IBAN has check digits (ISO 13616, ISO 7064 MOD 97-10). BIC (ISO 9362) and VAT ids are checked by their form alone.
Tax numbers have as many forms as there are tax offices; they stay as they are written.
"""

from __future__ import annotations

import re
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


_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")
_BIC = re.compile(r"[A-Z]{4}[A-Z]{2}[A-Z0-9]{2}(?:[A-Z0-9]{3})?")
_VAT_ID = re.compile(r"[A-Z]{2,3}[A-Z0-9+*]{2,15}")
_SPACES = re.compile(r"\s+")
_SEPARATORS = re.compile(r"[\s.\-/]+")
TAX_NUMBER_MAX_CHARS = 64
_LENGTHS = {
    "AT": 20, "BE": 16, "BG": 22, "CH": 21, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "EE": 20, "ES": 24, "FI": 18,
    "FR": 27, "GB": 22, "GR": 27, "HR": 21, "HU": 28, "IE": 22, "IS": 26, "IT": 27, "LI": 21, "LT": 20, "LU": 20,
    "LV": 21, "MC": 27, "MT": 31, "NL": 18, "NO": 15, "PL": 28, "PT": 25, "RO": 24, "SE": 24, "SI": 19, "SK": 24,
    "SM": 27,
}  # fmt: skip
"""Characters of an IBAN, by country: those of SEPA. Others have 15 to 34."""

# Council Directive 2006/112/EC, Article 215, and what each member state writes behind its prefix.
_VAT_FORMS = {
    "AT": r"U\d{8}", "BE": r"[01]\d{9}", "BG": r"\d{9,10}", "CY": r"\d{8}[A-Z]", "CZ": r"\d{8,10}", "DE": r"\d{9}",
    "DK": r"\d{8}", "EE": r"\d{9}", "EL": r"\d{9}", "ES": r"[A-Z0-9]\d{7}[A-Z0-9]", "FI": r"\d{8}",
    "FR": r"[A-HJ-NP-Z0-9]{2}\d{9}", "HR": r"\d{11}", "HU": r"\d{8}", "IE": r"\d[A-Z0-9+*]\d{5}[A-Z]{1,2}",
    "IT": r"\d{11}", "LT": r"\d{9}(?:\d{3})?", "LU": r"\d{8}", "LV": r"\d{11}", "MT": r"\d{8}",
    "NL": r"[A-Z0-9+*]{10}\d{2}", "PL": r"\d{10}", "PT": r"\d{9}", "RO": r"\d{2,10}", "SE": r"\d{12}", "SI": r"\d{8}",
    "SK": r"\d{10}", "XI": r"\d{9}(?:\d{3})?|(?:GD|HA)\d{3}",
}  # fmt: skip


def without_spaces(text: str) -> str:
    """In upper case, as IBAN and BIC are stored."""
    return _SPACES.sub("", text).upper()


def plain_vat_id(text: str) -> str:
    """`DE 123.456.789` as `DE123456789`."""
    return _SEPARATORS.sub("", text).upper()


def iban_fault(text: str) -> str | None:
    """What an IBAN (as `without_spaces` makes it) has to be, or None if it is that."""
    if not text.isascii() or not _IBAN.fullmatch(text):
        return "an IBAN such as DE89 3704 0044 0532 0130 00: two letters, two digits, 11 to 30 letters or digits"
    wanted = _LENGTHS.get(text[:2], len(text))
    if len(text) != wanted:
        return f"an IBAN: one of {text[:2]} has {wanted} characters, this one has {len(text)}"
    as_digits = "".join(str(int(each, 36)) for each in text[4:] + text[:4])
    if int(as_digits) % 97 != 1:
        return "an IBAN whose check digits are right; compare it with the bank's"
    return None


def bic_fault(text: str) -> str | None:
    """What a BIC has to be, or None if it is that."""
    return None if text.isascii() and _BIC.fullmatch(text) else "a BIC of 8 or 11 characters, such as COBADEFFXXX"


def vat_id_fault(text: str) -> str | None:
    """What a VAT id (as `plain_vat_id` makes it) has to be, or None if it is that."""
    if not text.isascii() or not _VAT_ID.fullmatch(text):
        return "a VAT id with the letters of its country first, such as DE123456789"
    form = _VAT_FORMS.get(text[:2])
    if form is not None and not re.fullmatch(form, text[2:]):
        return f"a VAT id as {text[:2]} writes them; compare it with the certificate"
    return None


def on_one_line(text: str) -> str:
    """With one space wherever there are several, or a break."""
    return " ".join(text.split())


def tax_number_fault(text: str) -> str | None:
    """What a tax number (as `on_one_line` makes it) has to be, or None if it is that."""
    if not text.isprintable() or not any(each.isalnum() for each in text):
        return "a tax number as the tax office writes it, such as 21/815/08150"
    return None


def grouped(iban: str) -> str:
    """By fours, as people read it."""
    return " ".join(iban[at : at + 4] for at in range(0, len(iban), 4))


Iban = Annotated[str, Meta(description="Its check digits are verified."), Prepared(without_spaces), Checked(iban_fault)]
"""Upper case without spaces."""
Bic = Annotated[str, Meta(description="8 or 11 characters."), Prepared(without_spaces), Checked(bic_fault)]
VatId = Annotated[
    str,
    Meta(description="With the letters of its country, such as DE123456789."),
    Prepared(plain_vat_id),
    Checked(vat_id_fault),
]
"""Upper case without separators."""
TaxNumber = Annotated[
    str,
    Meta(max_length=TAX_NUMBER_MAX_CHARS, description="As the tax office writes it, such as 21/815/08150."),
    Prepared(on_one_line),
    Checked(tax_number_fault),
]
