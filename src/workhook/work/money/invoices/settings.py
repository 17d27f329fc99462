"""Billing settings in the database, and their effect on invoices.

Each account and project that has set any has one row.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from workhook.core.money import DEFAULT_CURRENCY
from workhook.core.zones import day_in, midnight_of
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import upsert
from workhook.storage.metadata import bigint_param
from workhook.storage.record_rows import assigned, row_reader, selected, stored_names, values_of
from workhook.work.kernel.billing_settings import (
    DEFAULT_LANGUAGE,
    AccountBilling,
    Language,
    Party,
    ProjectBilling,
    Seller,
    account_billing,
    billing_logos,
    budget_to_response,
    party_text,
    project_billing,
)
from workhook.work.money.invoices.rules import Balance, TaxRate
from workhook.work.time import rates

_read_account, _read_project = row_reader(AccountBilling), row_reader(ProjectBilling)
_of_account = selected(AccountBilling, account_billing)
_of_project = selected(ProjectBilling, project_billing)
_ACCOUNT, _PROJECT = account_billing.c.account_id, project_billing.c.repository_id

_account = sa.select(*_of_account).where(bigint_param("account_id") == _ACCOUNT)
_money = sa.select(projects.c.currency).where(projects.c.repository_id == _PROJECT).scalar_subquery().label("money")
_project = sa.select(*_of_project, rates.rates_of_project, _money).where(bigint_param("repository_id") == _PROJECT)
# These insert the row or lock the existing one.
_lock_account = (
    upsert(account_billing)
    .values(account_id=bigint_param("account_id"))
    .on_conflict_do_update(index_elements=[_ACCOUNT], set_={"account_id": _ACCOUNT})
    .returning(*_of_account)
)
_lock_project = (
    upsert(project_billing)
    .values(repository_id=bigint_param("repository_id"))
    .on_conflict_do_update(index_elements=[_PROJECT], set_={"repository_id": _PROJECT})
)
_update_account = (
    sa.update(account_billing).where(bigint_param("id") == _ACCOUNT).values(assigned(stored_names(AccountBilling)))
)
_update_project = (
    sa.update(project_billing).where(bigint_param("id") == _PROJECT).values(assigned(stored_names(ProjectBilling)))
)


async def find_account_billing(reader: Reader, account_id: int) -> AccountBilling:
    row = await reader.fetch_one(_account, {"account_id": account_id})
    return _read_account(row) if row else AccountBilling()


async def lock_account_billing(tx: Transaction, account_id: int) -> AccountBilling:
    return _read_account(await tx.fetch_row(_lock_account, {"account_id": account_id}))


def save_account_billing(tx: Transaction, account_id: int, billing: AccountBilling) -> None:
    tx.defer(_update_account, [{**values_of(billing), "id": account_id}])


async def find_project_billing(reader: Reader, repository_id: int) -> ProjectBilling:
    row = await reader.fetch_one(_project, {"repository_id": repository_id})
    return _project_of(row) if row else ProjectBilling()


async def lock_project_billing(tx: Transaction, repository_id: int) -> ProjectBilling:
    await tx.execute(_lock_project, {"repository_id": repository_id})
    return await find_project_billing(tx, repository_id)


def save_project_billing(tx: Transaction, repository_id: int, billing: ProjectBilling) -> None:
    tx.defer(_update_project, [{**values_of(billing), "id": repository_id}])


def _project_of(row: Row) -> ProjectBilling:
    money = row["money"] or DEFAULT_CURRENCY
    return _read_project(
        row,
        buyer=buyer_of_row(row) or Party(),
        budget=budget_to_response(row["budget_ms"], row["budget_minor"], money),
        rates=rates.rates_of_text(row["people_rates"], money),
        money=money,
    )


# --- settings that apply to an invoice -------------------------------------------------------------------------------


class InvoiceSettings(msgspec.Struct, frozen=True):
    """The combined settings of a project and its account. `currency` is None if neither has one."""

    seller: Seller = Seller()
    buyer: Party | None = None
    currency: str | None = None
    rate: TaxRate = TaxRate()
    payment_days: int | None = None
    payment_terms: str | None = None
    language: Language = DEFAULT_LANGUAGE

    @property
    def lacks_vat_id(self) -> Literal["seller", "buyer"] | None:
        """The party that lacks the VAT ID required by `reverse_charge`, if these settings have that category."""
        return lacking_vat_id(self.seller, self.buyer) if self.rate.category == "reverse_charge" else None

    @property
    def rate_at_issue(self) -> TaxRate:
        """The tax of an invoice that is issued without a draft, as for subscriptions."""
        return self.rate if self.lacks_vat_id is None else TaxRate()


_issuer = accounts.alias("issuer")
_SHARED = ("currency", "tax_millionths", "tax_category", "payment_days", "language")


def _labelled(table: sa.Table, prefix: str, *names: str) -> list[sa.Label[Any]]:
    return [table.c[name].label(prefix + name) for name in names]


_BUYER = tuple(f"buyer_{name}" for name in Party.__struct_fields__)
_SELLER = ("address", "vat_id", "email", "country", "iban", "bic", "logo_id", "timezone", "tax_number")
_PARTY_COLUMNS = [
    sa.func.coalesce(account_billing.c.legal_name, _issuer.c.name, _issuer.c.login).label("seller_name"),
    *_labelled(account_billing, "seller_", *_SELLER),
    *_labelled(project_billing, "", *_BUYER),
]
_DEFAULT_COLUMNS = [
    *_labelled(account_billing, "default_", *_SHARED, "payment_terms"),
    *_labelled(project_billing, "own_", *_SHARED),
]


def with_parties(
    statement: sa.Select[Any], account_id: sa.ColumnElement[Any], repository_id: sa.ColumnElement[Any]
) -> sa.Select[Any]:
    """Add the columns of `seller_of_row` and `buyer_of_row` to a statement with the IDs of the account and project."""
    return (
        statement.outerjoin(_issuer, _issuer.c.id == account_id)
        .outerjoin(account_billing, account_id == _ACCOUNT)
        .outerjoin(project_billing, repository_id == _PROJECT)
        .add_columns(*_PARTY_COLUMNS)
    )


def with_settings(
    statement: sa.Select[Any], account_id: sa.ColumnElement[Any], repository_id: sa.ColumnElement[Any]
) -> sa.Select[Any]:
    return with_parties(statement, account_id, repository_id).add_columns(*_DEFAULT_COLUMNS)


_keep_logo = sa.update(billing_logos).where(billing_logos.c.id == sa.bindparam("logo_id")).values(is_issued=sa.true())
_for_invoice = with_settings(
    sa.select(projects.c.id).where(projects.c.repository_id == bigint_param("repository_id")),
    projects.c.account_id,
    projects.c.repository_id,
)


async def find_settings(reader: Reader, repository_id: int) -> InvoiceSettings:
    """Return the settings for an invoice of the project, or the defaults if the project is deleted."""
    row = await reader.fetch_one(_for_invoice, {"repository_id": repository_id})
    return InvoiceSettings() if row is None else settings_of_row(row)


async def find_settings_to_issue(tx: Transaction, repository_id: int) -> InvoiceSettings:
    """Return the settings for an invoice that is issued now.

    The row of the logo is kept from now on. A logo that has just been removed is left out.
    """
    settings = await find_settings(tx, repository_id)
    seller = settings.seller
    if seller.logo is None or await tx.execute(_keep_logo, {"logo_id": seller.logo}):
        return settings
    return replace(settings, seller=replace(seller, logo=None))


def settings_of_row(row: Row) -> InvoiceSettings:
    def either(name: str) -> Any:
        own = row[f"own_{name}"]
        return row[f"default_{name}"] if own is None else own

    own = TaxRate(row["own_tax_millionths"], row["own_tax_category"])
    return InvoiceSettings(
        seller=seller_of_row(row),
        buyer=buyer_of_row(row),
        currency=either("currency"),
        rate=own if own != TaxRate() else TaxRate(row["default_tax_millionths"], row["default_tax_category"]),
        payment_days=either("payment_days"),
        payment_terms=row["default_payment_terms"],
        language=either("language") or DEFAULT_LANGUAGE,
    )


def lacking_vat_id(seller: Seller, buyer: Party | None) -> Literal["seller", "buyer"] | None:
    """Return the first party without a VAT ID, or None.

    Reverse charge requires both IDs (Directive 2006/112/EC, Article 226(3) and (4)).
    """
    if not seller.vat_id:
        return "seller"
    return None if buyer and buyer.vat_id else "buyer"


def issued_values(settings: InvoiceSettings, total: int, due: int | None, now: int) -> dict[str, Any]:
    """Return the values fixed when an invoice is issued: the parties, with the time zone of its days, and the due date.

    `due` is that of the draft. An invoice with a total of 0 is paid immediately.
    """
    if due is None and settings.payment_days is not None:
        due = midnight_of(day_in(now, settings.seller.zone) + timedelta(days=settings.payment_days))
    buyer = party_text(settings.buyer) if settings.buyer else None
    seller = party_text(settings.seller)
    parties = {"buyer": buyer, "buyer_shown": buyer, "seller": seller, "seller_shown": seller}
    status, paid_at = Balance(total).status, None if total else now
    return {"status": status, "issued": now, "paid_at": paid_at, "due": due, **parties}


def seller_of_row(row: Row) -> Seller:
    return Seller(row["seller_name"], *(row[f"seller_{name}"] for name in _SELLER))


def buyer_of_row(row: Row) -> Party | None:
    """Read the buyer from a row. Returns None if the project has none."""
    buyer = Party(*(row[name] for name in _BUYER))
    return None if buyer == Party() else buyer


_find_logo = sa.select(billing_logos.c.content_type, billing_logos.c.size, billing_logos.c.blob).where(
    billing_logos.c.id == sa.bindparam("logo_id"), billing_logos.c.account_id == bigint_param("account_id")
)


class LogoFile(msgspec.Struct, frozen=True):
    """The logo on an invoice, and where its content is stored."""

    content_type: str
    size: int
    blob: str


async def find_logo(reader: Reader, account_id: int, logo_id: str) -> LogoFile | None:
    """Find a logo. Returns None if it is deleted or belongs to another account."""
    row = await reader.fetch_one(_find_logo, {"account_id": account_id, "logo_id": logo_id})
    return LogoFile(row["content_type"], row["size"], row["blob"]) if row else None
