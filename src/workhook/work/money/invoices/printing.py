"""The texts of a printed invoice. Pure functions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec

from workhook.core.zones import day_in
from workhook.identity.schemas import Repository
from workhook.work.kernel.billing_settings import Language, Party, Seller, grouped, percent_of
from workhook.work.kernel.durations import format_duration
from workhook.work.money.invoices.paper import REVERSE_CHARGE, DocumentLocale
from workhook.work.money.invoices.rules import ISSUED, OPEN, Credit, Item, TaxRate, TaxRow
from workhook.work.money.invoices.schemas import Invoice

_LABELS = {
    "from": "From", "bill_to": "Bill to", "description": "Description", "qty": "Quantity", "unit_price": "Unit price",
    "amount": "Amount", "total": "Total", "page": "Page", "of": "of", "code": "Scan to pay with your banking app",
}  # fmt: skip
"""The fixed texts of the template, by their keys in it."""
_STATUSES = {"partially_paid": "Partially paid", "paid": "Paid", "credited": "Credited"}
_CATEGORIES: dict[str, str] = {"exempt": "Exempt from tax", "reverse_charge": "Reverse charge"}
_MARKS = {"draft": "DRAFT", "void": "VOID"}
_LONG_WORD = re.compile(r"\S{25,}")
_PARTS = re.compile(r"\S{1,20}")
_MAY_BREAK = "\u200b"
_EMOJI = (
    "\U0001f000-\U0001faff\u231a\u231b\u23e9-\u23ec\u23f0\u23f3\u2614\u2615\u2648-\u2653\u267f\u2693\u26a1\u26bd\u26be"
    "\u26c4\u26c5\u26ce\u26d4\u26ea\u26f2\u26f3\u26f5\u26fa\u26fd\u2705\u270a\u270b\u2728\u274c\u274e\u2753-\u2755\u2757"
    "\u2795-\u2797\u27b0\u27bf\u2b50\u2b55"
)
"""A character class of emoji that are displayed in color by default (Unicode `Emoji_Presentation`)."""
_JOINED = "\u200d[\u2600-\u27bf]?|[\ufe0f\u20e3\U000e0020-\U000e007f]"
_PICTURES = re.compile(f"(?<! ) *[{_EMOJI}](?:[{_EMOJI}]|{_JOINED})* *|\ufe0f")
_CLOSING = ",.;:!?)"
_PICTURE = re.compile(f"[{_EMOJI}]")


class PrintedItem(msgspec.Struct):
    description: str
    qty: str
    unit_price: str
    amount: str


class Printed(msgspec.Struct):
    """The input of `invoice.typ`; `render.py` adds `logo`. `code` is the QR code for a transfer, as SVG."""

    language: Language
    labels: dict[str, str]
    name: str
    title: str
    number: str | None
    seller: str
    initials: str
    mark: str | None
    bill_from: str
    bill_to: str
    facts: list[tuple[str, str]]
    items: list[PrintedItem]
    sums: list[tuple[str, str]]
    total: str
    balance: list[tuple[str, str]]
    notes: list[tuple[str, str]]
    code: str | None
    logo: str | None = None


def print_invoice(invoice: Invoice, repository: Repository) -> Printed:
    paper = DocumentLocale(invoice.language)
    currency, amount = invoice.currency, invoice.amount_minor
    every = invoice.every_item
    nets = sum(each.amount_minor for each in every)
    sums = [(paper.translate("Subtotal"), paper.money(nets, currency))]
    if nets != amount:
        words, percent = paper.translate("Discount"), invoice.discount_millionths
        words = words if percent is None else f"{words} {paper.percent(percent_of(percent))}"
        sums.append((words, paper.money(amount - nets, currency)))
    if invoice.tax_millionths is not None or any(each.millionths or _is_reversed(each) for each in invoice.tax_rows):
        sums += tax_lines(paper, invoice.tax_rows, currency, nets)
    return _page_of(
        paper,
        invoice,
        repository,
        title=paper.translate("Invoice"),
        number=invoice.invoice_number,
        mark=_MARKS.get(invoice.status),
        facts=[*_facts(paper, invoice), (paper.translate("Project"), printable(repository.title))],
        items=[line_of(paper, each, currency, _shown_rate(invoice, invoice.tax_rows)) for each in every],
        sums=sums,
        total=paper.money(invoice.total_minor, currency),
        balance=_balance(paper, invoice),
        notes=_notes(paper, invoice),
        code=_transfer_code(invoice),
    )


def print_credit_note(invoice: Invoice, repository: Repository, credit: Credit) -> Printed:
    """Return the page of a credit note. If it credits a total, without `items`, its single line is the net amount."""
    paper, currency = DocumentLocale(invoice.language), invoice.currency
    items, taxes = credit.items, credit.taxes
    amount = sum(each.base for each in taxes)
    whole = Item(f"{paper.translate('Credit note for invoice')} {invoice.invoice_number}", Decimal(1), amount)
    rate = _shown_rate(invoice, taxes)
    return _page_of(
        paper,
        invoice,
        repository,
        title=paper.translate("Credit note"),
        number=credit.number,
        mark=None,
        facts=[
            (paper.translate("Issued"), paper.day(day_in(credit.issued, invoice.zone))),
            (paper.translate("Invoice"), printable(invoice.invoice_number or "")),
            (paper.translate("Project"), printable(repository.title)),
        ],
        items=[line_of(paper, each, currency, rate if items else None) for each in items or (whole,)],
        sums=[(paper.translate("Subtotal"), paper.money(amount, currency)), *tax_lines(paper, taxes, currency, amount)],
        total=paper.money(sum(each.gross for each in taxes), currency),
        balance=[],
        notes=[(paper.translate("Reason"), printable(credit.reason)), *_tax_notes(paper, taxes)],
        code=None,
    )


def _page_of(
    paper: DocumentLocale,
    invoice: Invoice,
    repository: Repository,
    *,
    title: str,
    number: str | None,
    mark: str | None,
    **rest: Any,
) -> Printed:
    """Add the parties, which both kinds of documents show."""
    name = invoice.who_bills.name or repository.owner.name or repository.owner.login
    shown_number = printable(number) if number else None
    return Printed(
        language=paper.language,
        labels={key: paper.translate(words) for key, words in _LABELS.items()},
        name=f"{title} {shown_number}" if shown_number else paper.translate("Draft invoice"),
        title=title,
        number=shown_number,
        seller=printable(name),
        initials=initials_of(name),
        mark=paper.translate(mark) if mark else None,
        bill_from=printable(_with_facts(paper, seller_text(invoice, repository), invoice.who_bills)),
        bill_to=printable(_with_facts(paper, buyer_text(invoice), invoice.who_pays)),
        **rest,
    )


def _with_facts(paper: DocumentLocale, text: str, party: Party) -> str:
    """Return the name and address, followed by the country, tax numbers and e-mail address."""
    vat_id = f"{paper.translate('VAT ID')} {party.vat_id}" if party.vat_id else None
    number = party.tax_number if isinstance(party, Seller) else None
    tax_number = f"{paper.translate('Tax number')} {number}" if number else None
    return "\n".join(each for each in (text, party.country, vat_id, tax_number, party.email) if each)


def _notes(paper: DocumentLocale, invoice: Invoice) -> list[tuple[str, str]]:
    notes = [
        (paper.translate(label), printable(value))
        for label, name in (("Payment", "payment_method"), ("Payment terms", "payment_terms"))
        if (value := getattr(invoice, name))
    ]
    notes += _tax_notes(paper, invoice.tax_rows)
    seller = invoice.who_bills
    if seller.iban:
        bank = [f"IBAN {grouped(seller.iban)}", f"BIC {seller.bic}" if seller.bic else None]
        notes.append((paper.translate("Bank details"), "\n".join(each for each in bank if each)))
    return notes


def _tax_notes(paper: DocumentLocale, rows: Sequence[TaxRow]) -> list[tuple[str, str]]:
    return [(paper.translate("Tax"), paper.translate(REVERSE_CHARGE))] if any(map(_is_reversed, rows)) else []


def _is_reversed(row: TaxRow) -> bool:
    return row.category == "reverse_charge"


def _transfer_code(invoice: Invoice) -> str | None:
    """Return a QR code for paying the amount due, or None unless the invoice is open, in EUR, and has an IBAN."""
    seller = invoice.who_bills
    if not (seller.iban and seller.name) or invoice.currency != "EUR" or invoice.status not in OPEN:
        return None
    text = transfer_text(seller.name, seller.iban, seller.bic, invoice.books.due, invoice.invoice_number or "")
    return code_of(text) if text else None


def seller_text(invoice: Invoice, repository: Repository) -> str:
    """Return the seller's name and address as written on the invoice, or else those of the party."""
    if invoice.bill_from:
        return invoice.bill_from
    name = invoice.who_bills.name or repository.owner.name or repository.owner.login
    return "\n".join(each for each in (name, invoice.who_bills.address) if each)


def buyer_text(invoice: Invoice) -> str:
    """Return the buyer's name and address as written on the invoice, or else those of the party; may be empty."""
    buyer = invoice.who_pays
    written = invoice.bill_to or invoice.address
    texts = (invoice.bill_to, invoice.address) if written else (buyer.name, buyer.address)
    return "\n".join(each for each in texts if each)


def pictures_in(invoice: Invoice, repository: Repository) -> str:
    """Return the distinct emoji in its texts. A PDF leaves them out because its fonts do not have them."""
    return "".join(dict.fromkeys(_PICTURE.findall(texts_of(invoice, repository))))


def texts_of(invoice: Invoice, repository: Repository) -> str:
    texts = [seller_text(invoice, repository), buyer_text(invoice), invoice.payment_method, invoice.payment_terms]
    items = invoice.every_item
    texts += [invoice.invoice_number, repository.title, *(each.description for each in items)]
    return "".join(each for each in texts if each)


def initials_of(name: str) -> str:
    """Return the initials of the first two words: `AS` for Acme Studio."""
    letters = [next((each for each in word if each.isalnum()), "") for word in re.split(r"[\W_]+", name)]
    return "".join([each for each in letters if each][:2]).upper()


def tax_lines(paper: DocumentLocale, rows: Sequence[TaxRow], currency: str, subtotal: int) -> list[tuple[str, str]]:
    """Return a line for each tax rate, with its base unless that equals the subtotal above."""
    lines = []
    for each in rows:
        words = f"{paper.translate('Tax')} {paper.percent(percent_of(each.millionths))}"
        if len(rows) > 1 or each.base != subtotal:
            words += f" {paper.translate('of')} {paper.money(each.base, currency)}"
        lines.append((words, paper.money(each.tax, currency)))
    return lines


def _facts(paper: DocumentLocale, invoice: Invoice) -> list[tuple[str, str]]:
    days = zip(("Issued", "Due date", "Paid"), invoice.days, strict=True)
    facts = [(paper.translate(name), paper.day(day)) for name, day in days if day is not None]
    if (service := invoice.service_days) is not None:
        words = "Service date" if service[0] == service[1] else "Service period"
        facts.append((paper.translate(words), paper.days(service)))
    if status := _STATUSES.get(invoice.status):
        facts.append((paper.translate("Status"), paper.translate(status)))
    return facts


def _balance(paper: DocumentLocale, invoice: Invoice) -> list[tuple[str, str]]:
    """Return the lines below the total, once something has been paid or credited."""
    if invoice.status not in ISSUED or not ((books := invoice.books).paid or books.credited):
        return []
    rows = [("Paid", books.paid), ("Credited", books.credited), ("To be refunded", books.to_refund)]
    shown = [(paper.translate(name), paper.money(minor, invoice.currency)) for name, minor in rows if minor]
    return [*shown, (paper.translate("Amount due"), paper.money(books.due, invoice.currency))]


def _shown_rate(invoice: Invoice, rows: Sequence[TaxRow]) -> TaxRate | None:
    """Return the rate of lines without their own, or None if the sums show the only rate."""
    return invoice.rate if len(rows) > 1 else None


def _rate_words(paper: DocumentLocale, item: Item, rate: TaxRate) -> str:
    millionths, category = item.rate.or_default(rate)
    if category in _CATEGORIES:
        return paper.translate(_CATEGORIES[category])
    return f"{paper.translate('Tax')} {paper.percent(percent_of(millionths))}"


def line_of(paper: DocumentLocale, item: Item, currency: str, rate: TaxRate | None = None) -> PrintedItem:
    """Return a printed line. `rate` is the invoice's rate if each line shows its rate."""
    parts = (("Rounding per time entry", item.rounding_minor), ("Discount", item.gross_minor - item.amount_minor))
    more = "".join(f"\n{paper.translate(words)}: {paper.number(minor, currency)}" for words, minor in parts if minor)
    more += "" if rate is None else f"\n{_rate_words(paper, item, rate)}"
    qty = paper.quantity(item.qty) if item.duration_ms is None else format_duration(item.duration_ms)
    prices = (paper.number(item.unit_price_minor, currency), paper.number(item.amount_minor, currency))
    return PrintedItem(printable(item.description) + more, qty, *prices)


def printable(value: str) -> str:
    """Remove control characters and emoji, and add break opportunities to words that are too long for a line."""
    one_kind = value.replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ")
    seen = "".join(each for each in one_kind if each == "\n" or unicodedata.category(each) not in ("Cc", "Cs"))
    seen = _PICTURES.sub(_without_picture, seen)
    return _LONG_WORD.sub(lambda word: _MAY_BREAK.join(_PARTS.findall(word[0])), seen)


def _without_picture(found: re.Match[str]) -> str:
    """Return the space to leave between two words when the emoji between them are removed."""
    before, after = found.string[max(found.start() - 1, 0) : found.start()], found.string[found.end() : found.end() + 1]
    is_between = before.strip() and after.strip() and after not in _CLOSING
    return " " if is_between and " " in found[0] else ""


def file_name(invoice: Invoice, ending: str = "pdf", *, credit: Credit | None = None) -> str:
    """Return an ASCII file name in the language of the invoice, such as `Rechnungskorrektur-CN-00001.pdf`."""
    number = credit.number if credit else invoice.invoice_number
    words = "Credit note" if credit else "Invoice" if number else "Draft invoice"
    name = f"{DocumentLocale(invoice.language).translate(words)} {number or ''}"
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip("-.") + f".{ending}"


NAME_MAX_CHARS = 70
REMITTANCE_MAX_CHARS = 140
AMOUNT_MAX_MINOR = 99_999_999_999
VERSION_MAX = 13  # version of the QR symbol; EPC069-12, 2.2


def transfer_text(name: str, iban: str, bic: str | None, amount_minor: int, remittance: str) -> str | None:
    """Return the text of the QR code for `amount_minor` cents, or None if the code does not allow that amount."""
    if not 0 < amount_minor <= AMOUNT_MAX_MINOR:
        return None
    lines = (
        "BCD",
        "002",
        "1",  # UTF-8
        "SCT",
        bic or "",
        _plain(name, NAME_MAX_CHARS),
        iban,
        f"EUR{amount_minor // 100}.{amount_minor % 100:02}",
        "",  # purpose code
        "",  # structured reference
        _plain(remittance, REMITTANCE_MAX_CHARS),
    )
    return "\n".join(lines)


def code_of(text: str) -> str | None:
    """Return the QR symbol as SVG without its quiet zone, or None if the text is too long."""
    import segno  # takes 2 MiB, and most servers never use it

    try:
        code = segno.make_qr(text, error="m", boost_error=False, encoding="utf-8")
    except segno.DataOverflowError:
        return None
    if not isinstance(code.version, int) or code.version > VERSION_MAX:
        return None
    return str(code.svg_inline(border=0, omitsize=True))


def _plain(text: str, most: int) -> str:
    return " ".join(text.split())[:most]
