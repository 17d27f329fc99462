"""Who bills and who pays, as an invoice shows them: in a draft from the settings of now, afterwards from its row."""

from __future__ import annotations

from datetime import tzinfo
from typing import Annotated, Literal

import msgspec

from workhook.core.records import EventSchema, JsonForm
from workhook.core.zones import stored_zone

Language = Literal["en", "de"]
LANGUAGES: tuple[Language, ...] = ("en", "de")
DEFAULT_LANGUAGE: Language = "en"


class Party(msgspec.Struct, frozen=True):
    """Who pays. What is not known is null."""

    name: str | None = None
    address: str | None = None
    vat_id: str | None = None
    email: str | None = None
    country: str | None = None  # ISO 3166-1, two letters


class Seller(Party, frozen=True):
    """Who bills. `logo` is the id of the logo on the invoice's PDF. Its days are those of `timezone`, an IANA name;
    null: UTC."""

    iban: str | None = None
    bic: str | None = None
    logo: Annotated[str | None, EventSchema({"pattern": "^lgo_[0-9a-z]{26}$"})] = None
    timezone: str | None = None
    tax_number: str | None = None

    @property
    def zone(self) -> tzinfo:
        return stored_zone(self.timezone)


def party_of(text: str) -> Party:
    """Of a column."""
    return msgspec.json.decode(text, type=Party)


def seller_of(text: str) -> Seller:
    """Of a column."""
    return msgspec.json.decode(text, type=Seller)


def party_text(party: Party | None) -> str | None:
    """As columns hold it; null stands for nobody."""
    return None if party is None else msgspec.json.encode(party).decode()


BuyerText = Annotated[str, JsonForm(Party, party_of)]
SellerText = Annotated[str, JsonForm(Seller, seller_of)]
