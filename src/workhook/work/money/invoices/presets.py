"""What the form of a new invoice begins with: what the billing settings say, or else what the project's last invoice
said, or who its only client is."""

from __future__ import annotations

import asyncio

import msgspec
import sqlalchemy as sa

from workhook.core.money import DEFAULT_CURRENCY
from workhook.identity.schemas import Repository
from workhook.identity.tables import accounts
from workhook.storage import Reader
from workhook.storage.metadata import big
from workhook.work.kernel.access import Access
from workhook.work.kernel.tables import clients
from workhook.work.money.invoices.rules import TaxRate
from workhook.work.money.invoices.schemas import invoices
from workhook.work.money.invoices.settings import InvoiceSettings, find_settings
from workhook.work.money.services.schemas import service_prices, services

LOOKS_AT_MOST = 50
"""Invoices of a project, and services of an account, among which the last that says something is looked for."""
TEXTS = ("bill_to", "address", "bill_from", "payment_terms", "payment_method")


class Presets(msgspec.Struct, frozen=True):
    """`texts`: by the names that an invoice has for them, those that are known. `settings`: of the project now."""

    currency: str
    texts: dict[str, str]
    rate: TaxRate
    settings: InvoiceSettings


_account = big("account_id")
_of_project = invoices.c.repository_id == big("repository_id")
_last_here = sa.select(invoices.c.currency).where(_of_project).order_by(invoices.c.id.desc()).limit(1)
_last_of_account = (
    sa.select(invoices.c.currency)
    .where(invoices.c.account_id == _account, invoices.c.invoice_number.is_not(None))
    .order_by(invoices.c.invoice_number.desc())  # the index of numbers has them so: none is sorted
    .limit(1)
)
_newest_services = (
    sa.select(services.c.id)
    .where(services.c.account_id == _account)
    .order_by(services.c.id.desc())
    .limit(LOOKS_AT_MOST)
    .subquery("newest_services")
)
_last_price = (
    sa.select(service_prices.c.currency)
    .join(_newest_services, _newest_services.c.id == service_prices.c.service_id)
    .order_by(service_prices.c.id.desc())
    .limit(1)
)
_for_invoice = sa.select(
    sa.func.coalesce(*(each.scalar_subquery() for each in (_last_here, _last_of_account, _last_price))).label("last")
)
_for_price = sa.select(
    sa.func.coalesce(*(each.scalar_subquery() for each in (_last_price, _last_of_account))).label("last")
)
_newest = (
    sa.select(invoices.c.id, *(invoices.c[name] for name in TEXTS))
    .where(_of_project)
    .order_by(invoices.c.id.desc())
    .limit(LOOKS_AT_MOST)
    .subquery("newest")
)
_last_addressed = (  # those of subscriptions name nobody
    sa.select(_newest).where(_newest.c.bill_to.is_not(None)).order_by(_newest.c.id.desc()).limit(1)
)
_first_clients = (
    sa.select(accounts.c.name, clients.c.email)
    .join_from(clients, accounts, accounts.c.id == clients.c.user_id)
    .where(clients.c.repository_id == big("repository_id"))
    .order_by(clients.c.id)
    .limit(2)
)


async def find_presets(reader: Reader, access: Access) -> Presets:
    """For a new invoice of the project. Raises `Forbidden` for a client, who does not see other clients."""
    access.require_member("make invoices")
    here = {"repository_id": access.repository.id}
    settings, code, last, found = await asyncio.gather(
        find_settings(reader, access.repository.id),
        find_last_currency(reader, access.repository),
        reader.fetch_one(_last_addressed, here),
        reader.fetch_all(_first_clients, here),
    )
    texts: dict[str, str] = {}
    if last is not None:
        texts = {name: last[name] for name in TEXTS if last[name]}
    elif len(found) == 1:
        shown = (found[0]["name"], None if access.reads_only else found[0]["email"])
        texts = {"bill_to": "\n".join(each for each in shown if each)}
    for name in _known_to(settings):  # the invoice has it from the settings
        texts.pop(name, None)
    if settings.payment_terms:
        texts["payment_terms"] = settings.payment_terms
    return Presets(settings.currency or code, texts, settings.rate, settings)


def _known_to(settings: InvoiceSettings) -> tuple[str, ...]:
    """The texts that the parties take the place of."""
    buyer = ("bill_to", "address") if settings.buyer and settings.buyer.name else ()
    return (*buyer, "bill_from") if settings.seller.address else buyer


async def find_currency(reader: Reader, access: Access) -> str:
    """That of the settings, of the project's last invoice, or else the one that its account has used last."""
    settings = await find_settings(reader, access.repository.id)
    return settings.currency or await find_last_currency(reader, access.repository)


async def find_last_currency(reader: Reader, repository: Repository) -> str:
    """The one that counts where the settings say none: of the project's last invoice, or else of its account's."""
    here = {"repository_id": repository.id, "account_id": repository.owner.id}
    row = await reader.fetch_one(_for_invoice, here)
    return (row and row["last"]) or DEFAULT_CURRENCY


async def find_price_currency(reader: Reader, account_id: int) -> str | None:
    """That of the account's newest price, or else of its last invoice; None without either."""
    row = await reader.fetch_one(_for_price, {"account_id": account_id})
    return row["last"] if row else None
