"""The words, numbers and dates of a printed document, in the language of its invoice. Pure functions.

The keys are the English words. Pages have separate catalogs, which are in the reader's language.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import msgspec

from workhook.core.money import amount_of
from workhook.work.kernel.billing_settings import Language

REVERSE_CHARGE = "Reverse charge: the recipient of the service owes the tax."
"""Directive 2006/112/EC, Article 226(11a). The German wording is that of § 14a Abs. 5 UStG."""

_GERMAN = {
    "Invoice": "Rechnung",
    "Draft invoice": "Rechnungsentwurf",
    "Credit note": "Rechnungskorrektur",
    "Credit note for invoice": "Korrektur zur Rechnung",
    "Due on receipt": "Sofort zahlbar",
    "Exempt from tax": "Steuerfrei",
    "Reverse charge": "Steuerschuldnerschaft des Leistungsempfängers",
    "From": "Von",
    "Bill to": "An",
    "Description": "Beschreibung",
    "Quantity": "Menge",
    "Unit price": "Einzelpreis",
    "Amount": "Betrag",
    "Subtotal": "Zwischensumme",
    "Discount": "Rabatt",
    "Rounding per time entry": "Rundung je Zeiteintrag",
    "Tax": "USt.",
    "of": "von",
    "Total": "Gesamt",
    "Issued": "Ausgestellt",
    "Service date": "Leistungsdatum",
    "Service period": "Leistungszeitraum",
    "Due date": "Fällig am",
    "Amount due": "Offener Betrag",
    "Paid": "Bezahlt",
    "Credited": "Korrigiert",
    "Partially paid": "Teilweise bezahlt",
    "To be refunded": "Zu erstatten",
    "Status": "Status",
    "Project": "Projekt",
    "Payment": "Zahlung",
    "Payment terms": "Zahlungsbedingungen",
    "Bank details": "Bankverbindung",
    "Scan to pay with your banking app": "Mit Ihrer Banking-App scannen und bezahlen",
    "VAT ID": "USt-IdNr.",
    "Tax number": "Steuernummer",
    "Reason": "Grund",
    "DRAFT": "ENTWURF",
    "VOID": "STORNIERT",
    "Page": "Seite",
    REVERSE_CHARGE: "Steuerschuldnerschaft des Leistungsempfängers.",
}


class DocumentLocale(msgspec.Struct, frozen=True):
    language: Language

    def translate(self, words: str) -> str:
        return _GERMAN[words] if self.language == "de" else words

    def number(self, minor: int, currency: str) -> str:
        """Format an amount with all decimal places of the currency, such as `1,299.99`."""
        return self._in_style(f"{amount_of(minor, currency):,f}")

    def money(self, minor: int, currency: str) -> str:
        return f"{self.number(minor, currency)} {currency}"

    def quantity(self, value: Decimal) -> str:
        return self._in_style(f"{value.normalize():,f}")

    def percent(self, value: Decimal) -> str:
        """Format a percentage. Only German has a space before the sign."""
        return f"{self.quantity(value)}{' %' if self.language == 'de' else '%'}"

    def day(self, day: date) -> str:
        return f"{day:%d.%m.%Y}" if self.language == "de" else f"{day.day} {day:%b %Y}"

    def days(self, days: tuple[str, str]) -> str:
        """Format a day, or the first and last of several, given as ISO dates."""
        first, last = (self.day(date.fromisoformat(each)) for each in days)
        return first if first == last else f"{first} \u2013 {last}"

    def _in_style(self, text: str) -> str:
        return text.translate(str.maketrans(",.", ".,")) if self.language == "de" else text
