"""What a printed invoice says: every value as the text that stands on the page. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

import msgspec

from workhook.identity.schemas import Repository
from workhook.work.invoices import rules
from workhook.work.invoices.arithmetic import TaxRow
from workhook.work.invoices.books import ISSUED
from workhook.work.invoices.parties import Party, Seller, party_of, seller_of
from workhook.work.invoices.rules import Item
from workhook.work.invoices.schemas import Invoice, name_of
from workhook.work.invoices.shapes import percent_of

_NOTES = (("Payment", "payment_method"), ("Payment terms", "payment_terms"))
_STATUSES = {"partially_paid": "Partially paid", "paid": "Paid", "credited": "Credited"}
_MARKS = {"draft": "DRAFT", "void": "VOID"}
_LONG_WORD = re.compile(r"\S{25,}")
_BREAK_EVERY = 20
_MAY_BREAK = "\u200b"
_EMOJI = (
    "\U0001f000-\U0001faff\u231a\u231b\u23e9-\u23ec\u23f0\u23f3\u2614\u2615\u2648-\u2653\u267f\u2693\u26a1\u26bd\u26be"
    "\u26c4\u26c5\u26ce\u26d4\u26ea\u26f2\u26f3\u26f5\u26fa\u26fd\u2705\u270a\u270b\u2728\u274c\u274e\u2753-\u2755\u2757"
    "\u2795-\u2797\u27b0\u27bf\u2b50\u2b55"
)
"""Of a character class: what is a coloured picture unless somebody asks for text (`Emoji_Presentation` of Unicode)."""
_JOINED = "\u200d[\u2600-\u27bf]?|[\ufe0f\u20e3\U000e0020-\U000e007f]"
_PICTURES = re.compile(f"(?<! ) *[{_EMOJI}](?:[{_EMOJI}]|{_JOINED})* *|\ufe0f")
_CLOSING = ",.;:!?)"
_PICTURE = re.compile(f"[{_EMOJI}]")


class PrintedItem(msgspec.Struct):
    """A line of the table."""

    description: str
    qty: str
    unit_price: str
    amount: str


class Printed(msgspec.Struct):
    """What `invoice.typ` reads; `logo` is added by whoever has one."""

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
    logo: str | None = None


def printed(invoice: Invoice, repository: Repository) -> Printed:
    """All that the page of the invoice shows, as it is now."""
    seller = repository.owner.name or repository.owner.login
    currency, amount, total = invoice.currency, invoice.amount_minor, invoice.total_minor
    every = [*rules.items_of(invoice.items), *rules.items_of(invoice.recurring_items)]
    nets = sum(each.amount_minor for each in every)
    sums = [("Subtotal", money_text(nets, currency))]
    if nets != amount:
        sums.append((_discount_words(invoice), money_text(amount - nets, currency)))
    if invoice.tax_millionths is not None or any(each.millionths for each in invoice.tax_rows):
        sums += tax_lines(invoice.tax_rows, currency)
    bill_to = "\n".join(each for each in (invoice.bill_to, invoice.address) if each)
    return Printed(
        name=printable(name_of(invoice.invoice_number)),
        title="Invoice",
        number=printable(invoice.invoice_number) if invoice.invoice_number else None,
        seller=printable(seller),
        initials=initials_of(seller),
        mark=_MARKS.get(invoice.status),
        bill_from=printable(invoice.bill_from or seller),
        bill_to=printable(bill_to),
        facts=_facts(invoice, repository.title),
        items=[line_of(each) for each in every],
        sums=sums,
        total=money_text(total, currency),
        balance=_balance(invoice),
        notes=[(label, printable(value)) for label, name in _NOTES if (value := getattr(invoice, name))],
    )


def parties_of(invoice: Invoice) -> tuple[Party | None, Seller | None]:
    """Who pays and who bills."""
    buyer, seller = invoice.buyer_shown, invoice.seller_shown
    return party_of(buyer) if buyer else None, seller_of(seller) if seller else None


def seller_text(invoice: Invoice, repository: Repository) -> str:
    """Name and address of who bills: as the invoice has it written, or else as the party has it."""
    if invoice.bill_from:
        return invoice.bill_from
    _, seller = parties_of(invoice)
    name = (seller and seller.name) or repository.owner.name or repository.owner.login
    return "\n".join(each for each in (name, seller and seller.address) if each)


def buyer_text(invoice: Invoice) -> str:
    """Name and address of who pays, in the same way; empty if nobody is named."""
    buyer = parties_of(invoice)[0] or Party()
    written = invoice.bill_to or invoice.address
    texts = (invoice.bill_to, invoice.address) if written else (buyer.name, buyer.address)
    return "\n".join(each for each in texts if each)


def pictures_in(invoice: Invoice, repository: Repository) -> str:
    """The emoji of its texts, each once: the fonts of a PDF do not have them, so they are left out."""
    seller = repository.owner.name or repository.owner.login
    texts = [
        getattr(invoice, name) or "" for name in ("bill_from", "bill_to", "address", *(name for _, name in _NOTES))
    ]
    items = [*rules.items_of(invoice.items), *rules.items_of(invoice.recurring_items)]
    texts += [seller, invoice.invoice_number or "", repository.title, *(each.description for each in items)]
    return "".join(dict.fromkeys(_PICTURE.findall("".join(texts))))


def initials_of(name: str) -> str:
    """Of the first two words: `AS` of Acme Studio."""
    letters = [next((each for each in word if each.isalnum()), "") for word in re.split(r"[\W_]+", name)]
    return "".join([each for each in letters if each][:2]).upper()


def _discount_words(invoice: Invoice) -> str:
    percent = invoice.discount_millionths
    return "Discount" if percent is None else f"Discount {_plain(percent_of(percent))} %"


def tax_lines(rows: Sequence[TaxRow], currency: str) -> list[tuple[str, str]]:
    """One for each rate; where there are several, each says what it is of."""
    lines = []
    for each in rows:
        words = f"Tax {_plain(percent_of(each.millionths))} %"
        of = f" of {money_text(each.base, currency)}" if len(rows) > 1 else ""
        lines.append((words + of, money_text(each.tax, currency)))
    return lines


def _facts(invoice: Invoice, project: str) -> list[tuple[str, str]]:
    days = [("Issued", invoice.issued), ("Due", invoice.due), ("Paid", invoice.paid_at)]
    facts = [(name, day_text(at_ms)) for name, at_ms in days if at_ms is not None]
    if status := _STATUSES.get(invoice.status):
        facts.append(("Status", status))
    return [*facts, ("Project", printable(project))]


def _balance(invoice: Invoice) -> list[tuple[str, str]]:
    """What stands below the total once something was paid or credited."""
    if invoice.status not in ISSUED or not ((books := invoice.books).paid or books.credited):
        return []
    rows = [("Paid", books.paid), ("Credited", books.credited), ("To be given back", books.to_refund)]
    due = ("Due", money_text(books.due, invoice.currency))
    return [*((name, money_text(minor, invoice.currency)) for name, minor in rows if minor), due]


def line_of(item: Item) -> PrintedItem:
    off = item.gross_minor - item.amount_minor
    less = f"\nDiscount: {_number(off)}" if off else ""
    return PrintedItem(
        printable(item.description) + less, _plain(item.qty), _number(item.unit_price_minor), _number(item.amount_minor)
    )


def day_text(at_ms: int) -> str:
    """In UTC, as all times are."""
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{at.day} {at:%b %Y}"


def _number(minor: int) -> str:
    return f"{Decimal(minor) / 100:,.2f}"


def money_text(minor: int, currency: str) -> str:
    return f"{_number(minor)} {currency}"


def _plain(value: Decimal) -> str:
    return f"{value.normalize():,f}"


def printable(value: str) -> str:
    """Without control characters and emoji, and with places to break in words that no line would hold."""
    one_kind = value.replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ")
    seen = "".join(each for each in one_kind if each == "\n" or unicodedata.category(each) not in ("Cc", "Cs"))
    seen = _PICTURES.sub(_without_picture, seen)
    return _LONG_WORD.sub(lambda word: _breakable(word[0]), seen)


def _without_picture(found: re.Match[str]) -> str:
    """The space that stays between words where emoji were left out."""
    before, after = found.string[max(found.start() - 1, 0) : found.start()], found.string[found.end() : found.end() + 1]
    is_between = before.strip() and after.strip() and after not in _CLOSING
    return " " if is_between and " " in found[0] else ""


def _breakable(word: str) -> str:
    return _MAY_BREAK.join(word[at : at + _BREAK_EVERY] for at in range(0, len(word), _BREAK_EVERY))


def timestamp_s(invoice: Invoice) -> int:
    """When the document was made, as it says itself: the same invoice is the same file, to the byte."""
    return int((invoice.issued or invoice.created_at) // 1000)


def file_name(invoice: Invoice) -> str:
    """ASCII without what file systems do not like."""
    plain = unicodedata.normalize("NFKD", name_of(invoice.invoice_number)).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip("-.") + ".pdf"
