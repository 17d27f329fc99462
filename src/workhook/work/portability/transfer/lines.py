"""The format of an export: conversion between table rows and JSON lines, checks, and the manifest.

The keys of a line are the names of the table's columns, with these exceptions: `repository_id` becomes `project`, the
ID of a project. A column `…_id` that refers to a person loses its `_id` and contains a login. JSON stored in a text
column becomes plain JSON. Times are in milliseconds since the epoch, as in the database.

Only values that the API accepts are valid. A field that an API parameter sets is validated like that parameter. Other
fields are validated by column name, so new columns are checked as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
import sqlalchemy as sa
from msgspec import Meta

from workhook.core import json
from workhook.core.clock import DAY_MS, HOUR_MS
from workhook.core.errors import Malformed, shown
from workhook.core.money import CURRENCIES
from workhook.core.records import Stored, fields_of
from workhook.core.zones import is_known
from workhook.events.catalog import ANY_EVENT, CATALOG
from workhook.events.hook_config import CONFIG_KEYS, ConfigChange
from workhook.http import parameters
from workhook.http.calls import JSON_BODY_MAX
from workhook.http.parameters import ON_ONE_LINE, LongText, Rule, Title, WebAddress, preparer
from workhook.http.wire_types import YEAR_9999
from workhook.identity.actions import is_login
from workhook.identity.schemas import project_fault
from workhook.storage import Row
from workhook.work.board.columns import ColumnCreate
from workhook.work.board.projects.schemas import LabelColors, ProjectCreate, ProjectName
from workhook.work.board.pushes import ID_CHARS
from workhook.work.board.tasks.imported_fields import SOURCES
from workhook.work.board.tasks.inputs import Labels, Sections, TaskCreate, Texts
from workhook.work.discussion import markup
from workhook.work.discussion.schemas import CommentCreate, ReplyCreate
from workhook.work.files.schemas import FileCreate, FolderCreate
from workhook.work.files.upload import clean_media_type, clean_name
from workhook.work.kernel.billing_settings import (
    BUDGET_MAX_HOURS,
    COUNTRIES,
    PAYMENT_DAYS_MAX,
    AccountBillingEdit,
    Bic,
    BuyerEdit,
    Category,
    Iban,
    Party,
    ProjectBillingEdit,
    Seller,
    TaxNumber,
    VatId,
)
from workhook.work.kernel.people import Email
from workhook.work.kernel.schemas import RATE_MAX_MINOR
from workhook.work.money.checkouts.schemas import ServiceCheckoutCancel, ServiceCheckoutCreate
from workhook.work.money.credit_notes.schemas import CreditNoteCreate
from workhook.work.money.credits.schemas import TaskCreditCreate
from workhook.work.money.invoices import rules
from workhook.work.money.invoices.rules import MILLION
from workhook.work.money.invoices.schemas import InvoiceCreate, ServiceDay
from workhook.work.money.payments.schemas import PaymentCreate
from workhook.work.money.services.schemas import ServiceCreate, ServicePriceParameters
from workhook.work.people.clients import ClientCreate
from workhook.work.portability.transfer.kinds import KINDS, PEOPLE, PROJECTS, Id, JsonColumn, LineKind
from workhook.work.time.timesheets.rules import DURATION_MAX_MS
from workhook.work.time.timesheets.schemas import TimesheetCreate

# --- checks on the values of a line beyond their types ----------------------------------------------------------------

Check = Callable[[Any], str | None]
"""Returns why a non-null value is invalid, or None."""

INPUTS: Mapping[str, type[msgspec.Struct]] = {
    "organization_billing": AccountBillingEdit,
    "project_billing": ProjectBillingEdit,
    "projects": ProjectCreate,
    "clients": ClientCreate,
    "columns": ColumnCreate,
    "tasks": TaskCreate,
    "task_comments": CommentCreate,
    "file_comments": CommentCreate,
    "file_comment_replies": ReplyCreate,
    "folders": FolderCreate,
    "files": FileCreate,
    "services": ServiceCreate,
    "service_prices": ServicePriceParameters,
    "service_checkouts": ServiceCheckoutCreate,
    "task_credits": TaskCreditCreate,
    "invoices": InvoiceCreate,
    "payments": PaymentCreate,
    "credit_notes": CreditNoteCreate,
    "timesheets": TimesheetCreate,
}
"""API parameters by the kind of line."""
_RENAMED: Mapping[tuple[str, str], tuple[type[msgspec.Struct], str]] = {
    **{("project_billing", f"buyer_{name}"): (BuyerEdit, name) for name in BuyerEdit.__struct_fields__},
    ("service_checkouts", "unsubscribe_reason"): (ServiceCheckoutCancel, "reason"),
    ("service_checkouts", "unsubscribed_feedback"): (ServiceCheckoutCancel, "feedback"),
}
_OTHERWISE = {
    ("organization_billing", "timezone"): "a zone that settings no longer take stays",
    ("projects", "archive"): "a flag",
    ("columns", "position"): "may be anything that sorts",
    ("invoices", "invoice_number"): "those that were counted are longer than one that is chosen may be",
    ("invoices", "credit_type"): "stored as text",
    ("task_credits", "kind"): "the ledger has more kinds than the API makes",
}
"""Fields whose API parameters have another form, with the reason."""
EMPTIED = (("task_comments", "text"), ("file_comments", "text"), ("file_comment_replies", "body"))
"""Required texts that are empty in deleted comments."""


def declared_check(kind: str, column: str) -> Check | None:
    """Return the check of the API parameter that sets a field, or None if no parameter does."""
    if (kind, column) in _OTHERWISE:
        return None
    shape, name = _RENAMED.get((kind, column), (INPUTS.get(kind), column))
    if shape is None or not parameters.takes(shape, name):
        return None
    if (kind, column) in EMPTIED:
        return lambda value: parameters.fault_of(shape, name, value) if value else None
    return lambda value: parameters.fault_of(shape, name, value)


MINOR_MAX = 10**15
"""The largest amount of the API in any currency, which is exact in JavaScript."""
NUMBER_MAX = 2**53 - 1
KEY_MAX_BYTES = 1024
"""The longest text in a key. PostgreSQL limits index entries to about 2,700 bytes."""
_PERIODS_MAX = 10_000
_RANK_MAX = 1 << 62
"""Leaves room for a billion further ranks within 64 bits."""
_RATE_MAX = RATE_MAX_MINOR * 10
"""Hundredths may have been converted to minor units of a currency with three decimal places."""
_SECRETS = ("secret", "password", "previous_secret_expires_in")

_MOMENTS = frozenset({
    "anchor", "cancel_date", "deadline", "deadline_told", "due", "end_time", "issued", "overdue_at",
    "pause_date", "period_end", "repeat_since", "running_since", "start_time",
})  # fmt: skip
_WHOLE = frozenset({"id", "bucket_id"})
"""64-bit numbers assigned by the database."""
_RANGES: dict[str, tuple[int, int]] = {
    "hourly_rate_minor": (0, _RATE_MAX),
    "billable_rate_minor": (0, _RATE_MAX),
    "budget_ms": (0, BUDGET_MAX_HOURS * HOUR_MS),
    "payment_days": (0, PAYMENT_DAYS_MAX),
    "year": (1970, 9998),
    "periods": (0, _PERIODS_MAX),
    "anchor_periods": (0, _PERIODS_MAX),
    "pauses": (0, NUMBER_MAX),
    "qty": (1, NUMBER_MAX),
    "size": (0, NUMBER_MAX),
    "last": (0, NUMBER_MAX),
    "number": (0, NUMBER_MAX),
}


def get_check(kind: str, column: sa.Column[Any], *, is_json: bool, is_reference: bool) -> Check | None:
    """Return the check of a column, or None if it needs none. `kind` is the name of the kind of line."""
    name = str(column.name)
    if is_json:
        check: Check = _JSON.get(name, _check_numbers)
        return check
    if is_reference or isinstance(column.type, sa.Boolean):
        return None
    declared = declared_check(kind, name)
    usual = _number_check(name) if isinstance(column.type, sa.Integer) else _text_check(kind, column)
    if declared is None or usual is None:
        return declared or usual
    return lambda value: usual(value) or declared(value)


def _number_check(name: str) -> Check | None:
    if name in _WHOLE:
        return None
    if name == "rank":
        # Nothing can be inserted next to an odd rank (`column_order`).
        return _is(lambda value: value % 2 == 0 and abs(value) <= _RANK_MAX, "an even number, at most 2^62")
    if name in _RANGES:
        return _between(*_RANGES[name])
    if name.endswith("_at") or name in _MOMENTS:
        return check_moment
    if name.endswith("_minor"):
        return check_minor
    if name.endswith("_millionths"):
        return _between(0, MILLION)
    return _between(0, DURATION_MAX_MS) if name.endswith("_ms") else _between(-NUMBER_MAX, NUMBER_MAX)


def _is(good: Callable[[Any], object], wanted: str) -> Check:
    return lambda value: None if good(value) else f"it must be {wanted}"


def _between(low: int, high: int) -> Check:
    return _is(lambda value: low <= value <= high, f"from {low} to {high}")


check_minor = _between(-MINOR_MAX, MINOR_MAX)
check_moment = _is(lambda value: 0 <= value < YEAR_9999, "a time from 1970 to 9998, in milliseconds")


def _text_check(kind: str, column: sa.Column[Any]) -> Check:
    name = str(column.name)
    if (kind, name) in _TEXTS_OF:
        return _TEXTS_OF[kind, name]
    if name in _TEXTS:
        return _TEXTS[name]
    return _check_key if column.primary_key or column.unique else _as(LongText)


@cache
def _as(kind: Any) -> Check:
    """Validate a value like an API parameter. Values that the API would correct are invalid here."""
    checks = [each.complaint for each in get_args(kind)[1:] if isinstance(each, Rule)]
    prepare = preparer(kind)

    def check(value: Any) -> str | None:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            return str(error)
        if wrong := next((found for each in checks if (found := each(value))), None):
            return f"it must be {wrong}"
        mended = prepare(value)
        return None if mended == value else f"the API would store {shown(str(mended))!r}"

    return check


def _check_key(value: str) -> str | None:
    return None if len(value.encode()) <= KEY_MAX_BYTES else f"it is longer than {KEY_MAX_BYTES} bytes"


_check_currency = _is(CURRENCIES.__contains__, "an ISO 4217 currency code")


def _check_file_name(value: str) -> str | None:
    kept = clean_name(value)
    return None if kept == value else f"it must be the name of a file, such as {shown(kept)!r}"


def _check_markup(value: str) -> str | None:
    if not value:
        return None  # deleted
    try:
        return None if markup.clean(value) == value else "it has markup that the API would not keep"
    except ValueError as error:
        return f"it must be {error}"


check_login = _is(is_login, "1 to 39 letters, digits, and single hyphens")
check_name: Check = _as(Annotated[str, Meta(max_length=255), ON_ONE_LINE])
check_account_name: Check = _as(Title)
check_email: Check = _as(Email)


def _check_document_number(value: str) -> str | None:
    try:
        return None if rules.read_number(value) == value else "it begins or ends with a space"
    except ValueError as error:
        return f"it must be {error}"


_check_country = _is(COUNTRIES.__contains__, "a country of ISO 3166-1")
_LINKED = ("project", "column", "task", "task_comment", "task_blocker")
_TEXTS: dict[str, Check] = {
    "service_from": _as(ServiceDay),
    "service_to": _as(ServiceDay),
    "title": _as(Title),
    "task_title": check_name,
    "avatar": _as(WebAddress),
    "cover_url": _as(WebAddress),
    "preview_image": _as(WebAddress),
    "email": check_email,
    "buyer_email": check_email,
    "country": _check_country,
    "buyer_country": _check_country,
    "currency": _check_currency,
    "name": check_name,
    "legal_name": check_name,
    "buyer_name": check_name,
    "content_type": _is(lambda value: clean_media_type(value) == value, "a media type, such as image/png"),
    "sha256": _is(re.compile("[0-9a-f]{64}").fullmatch, "64 hexadecimal digits"),
    "vat_id": _as(VatId),
    "iban": _as(Iban),
    "bic": _as(Bic),
    # Sent documents keep time zones that settings no longer accept.
    "timezone": _is(is_known, "the name of a time zone which this server knows"),
    "tax_number": _as(TaxNumber),
    "invoice_number": _check_document_number,
    "credit_note_number": _check_document_number,
    "commit_id": _as(Annotated[str, Meta(min_length=1, max_length=ID_CHARS)]),
    "logo": _as(Id),
}
_TEXTS_OF: dict[tuple[str, str], Check] = {
    ("projects", "name"): lambda value: _as(ProjectName)(value) or project_fault(value),
    ("task_comments", "imported_author"): _as(Title),
    ("organization", "login"): check_login,
    ("organization", "name"): check_account_name,
    ("file_comment_replies", "body"): _check_markup,
    ("files", "name"): _check_file_name,
    ("import_links", "kind"): _is(_LINKED.__contains__, f"one of {', '.join(_LINKED)}"),
    ("unmatched_assignees", "source"): _is(SOURCES.__contains__, f"one of {', '.join(SOURCES)}"),
    ("unmatched_assignees", "username"): check_name,
    ("unmatched_assignees", "full_name"): check_name,
}

CHECKED_BY_NAME: Collection[str | tuple[str, str]] = {*_TEXTS, *_TEXTS_OF}
"""Columns with a rule in this module, by name or by kind of line and name."""


class _Item(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A line item of an invoice, as `rules.Item` is stored."""

    description: str
    qty: str
    unit_price_minor: int
    timesheet_ids: Id | list[Id] | None
    times_ms: int | list[int] | None
    discount_millionths: int | None = None
    discount_minor: int | None = None
    tax_millionths: int | None = None
    tax_category: Category | None = None
    days: tuple[str, str] | None = None


_QTY = re.compile(rf"[0-9]{{1,{len(str(rules.QTY_MAX))}}}(\.[0-9]{{1,{rules.QTY_DECIMALS}}})?")
_ITEM_RANGES = {
    "unit_price_minor": (0, MINOR_MAX),
    "times_ms": (0, DURATION_MAX_MS),
    "discount_millionths": (0, MILLION),
    "discount_minor": (0, MINOR_MAX),
    "tax_millionths": (0, MILLION),
}


def _check_items(value: list[Any]) -> str | None:
    for number, row in enumerate(value, 1):
        try:
            item = msgspec.convert(row, _Item)
        except msgspec.ValidationError as error:
            return f"item {number}: {error}"
        if not _QTY.fullmatch(item.qty) or Decimal(item.qty) > rules.QTY_MAX:
            most = rules.QTY_MAX
            return f"item {number}: its quantity must be a number of at most {most}, with at most six decimal places"
        for name, (low, high) in _ITEM_RANGES.items():
            found = getattr(item, name)
            for each in found if isinstance(found, list) else [found]:
                if each is not None and (wrong := _between(low, high)(each)):
                    return f"item {number}, {name}: {wrong}"
        days = item.days or ()
        if any(_as(ServiceDay)(each) for each in days) or list(days) != sorted(days):
            return f"item {number}: its days must be a first and a last day, such as 2026-11-27"
        if wrong := _as(LongText)(item.description):
            return f"item {number}, description: {wrong}"
    return None


def _check_taxes(value: list[Any]) -> str | None:
    found = (_between(0, MILLION)(each.millionths) or check_minor(each.base) or check_minor(each.tax) for each in value)
    return next((each for each in found if each), None)


def _check_booked(value: list[Any]) -> str | None:
    found = (_as(Id)(each.id) or check_minor(each.amount_minor) or check_moment(each.at_ms) for each in value)
    return next((each for each in found if each), None)


def _check_prices(value: list[Any]) -> str | None:
    return next((wrong for each in value if (wrong := _check_currency(each[2]))), None) or _check_numbers(value)


def _check_party(value: Party) -> str | None:
    shape = AccountBillingEdit if isinstance(value, Seller) else BuyerEdit
    for name in value.__struct_fields__:
        parameter = "legal_name" if name == "name" and shape is AccountBillingEdit else name
        if (found := getattr(value, name)) is None:
            continue
        if name in ("timezone", "logo") or not parameters.takes(shape, parameter):
            wrong = _TEXTS.get(name, _as(LongText))(found)
        else:
            wrong = parameters.fault_of(shape, parameter, found)
        if wrong:
            return f"{name}: {wrong}"
    return None


def _check_config(value: dict[str, Any]) -> str | None:
    for name, each in value.items():
        if name in _SECRETS or name not in CONFIG_KEYS:
            return f"{name}: it cannot be in an export" if name in _SECRETS else f"unknown key {name}"
        if wrong := CONFIG_KEYS[name].read(ConfigChange(), each):
            return wrong
    if not str(value.get("url", "")).startswith(("http://", "https://")):
        return "url: it must be an http or https URL"
    return _as(WebAddress)(value["url"])


def _check_numbers(value: Any) -> str | None:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, (list, tuple)):
            waiting += each
        elif isinstance(each, int) and (wrong := check_minor(each)):
            return wrong
    return None


def _of_a_task(kind: Any) -> Check:
    """Validate a task's parameter, which is at most as long as a request body."""
    as_parameter = _as(kind)

    def check(value: Any) -> str | None:
        if len(json.encode(value)) > JSON_BODY_MAX:
            return f"it is longer than {JSON_BODY_MAX >> 20} MiB"
        return as_parameter(value)

    return check


_EVENTS = {*CATALOG, ANY_EVENT}


def _check_events(value: list[str]) -> str | None:
    unknown = [each for each in value if each not in _EVENTS]
    return f"unknown event {shown(unknown[0])!r}" if unknown else None


_JSON: dict[str, Check] = {
    "events": _check_events,
    "fields": _of_a_task(Texts),
    "sections": _of_a_task(Sections),
    "labels": _of_a_task(Labels),
    "label_colors": _as(LabelColors),
    "items": _check_items,
    "recurring_items": _check_items,
    "taxes": _check_taxes,
    "payments": _check_booked,
    "credit_notes": _check_booked,
    "prices": _check_prices,
    "buyer": _check_party,
    "seller": _check_party,
    "config": _check_config,
}


# --- lines ------------------------------------------------------------------------------------------------------------

Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_OWNERS = ("account_id", "organization_id")
_AT = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")


class Field(msgspec.Struct, frozen=True):
    """A field of a line and the column it is stored in.

    `is_id` marks the field that identifies the line. `refers` is the kind of the line that the field refers to, which
    may be missing if `may_be_missing`.
    """

    name: str
    column: str
    type: Any
    nullable: bool
    is_flag: bool
    is_id: bool
    refers: str | None
    may_be_missing: bool
    json: JsonColumn | None
    check: Check | None


@cache
def fields_of_kind(kind: LineKind) -> tuple[Field, ...]:
    known = {}  # types of columns restricted to a few texts
    for each in fields_of(kind.record) if kind.record else ():
        mark = each.mark(Stored)
        if get_origin(each.base_type) is not None and all(isinstance(value, str) for value in get_args(each.base_type)):
            known[each.name if mark is None else mark.column or each.name] = each.base_type
    known |= kind.types
    return tuple(
        _field(kind, column, known)
        for column in kind.source.columns
        if column.name not in kind.excluded_columns
        and not (column.name == kind.owner_column and kind.owner_column in _OWNERS)
    )


def _field(kind: LineKind, column: sa.Column[Any], known: Mapping[str, Any]) -> Field:
    name, is_flag = str(column.name), isinstance(column.type, sa.Boolean)
    may_be_missing = name in kind.may_be_missing
    tables = {key.target_fullname.rpartition(".")[0] for key in column.foreign_keys}
    kinds = (
        PEOPLE if each.name == "organization" else each.name for each in KINDS if (each.table or each.name) in tables
    )
    refers = kind.may_be_missing.get(name) or next(kinds, None)
    plain: Any = bool if is_flag else Number if isinstance(column.type, sa.Integer) else str
    if refers in (PEOPLE, PROJECTS):
        plain = str
    is_id = name == "id"
    if plain is str and (is_id or may_be_missing):
        plain = Id
    if name in kind.json:
        plain = kind.json[name].type
    plain = known.get(name, plain)
    return Field(
        name="project" if name == "repository_id" else name.removesuffix("_id") if refers == PEOPLE else name,
        column=name,
        type=plain | None if column.nullable else plain,
        nullable=bool(column.nullable),
        is_flag=is_flag,
        is_id=is_id,
        refers=refers,
        may_be_missing=may_be_missing,
        json=kind.json.get(name),
        check=get_check(kind.name, column, is_json=name in kind.json, is_reference=refers is not None),
    )


@cache
def line_type(kind: LineKind) -> type[msgspec.Struct]:
    """Return the struct that validates a line."""
    fields = [(each.name, each.type) for each in fields_of_kind(kind)]
    return msgspec.defstruct(f"{kind.name}_line", fields, forbid_unknown_fields=True, frozen=True)


def write_line(kind: LineKind, row: Row, logins: Mapping[int, str], projects: Mapping[int, str]) -> bytes:
    """Return the line of a row. `logins` is by account ID, and `projects` has project IDs by repository ID."""
    made = {each.name: _shown(each, row[each.column], logins, projects) for each in fields_of_kind(kind)}
    return json.on_one_line(json.encode(made)) + b"\n"


def _shown(field: Field, value: Any, logins: Mapping[int, str], projects: Mapping[int, str]) -> object:
    if value is None:
        return None
    if field.is_flag:
        return bool(value)
    if field.json is not None:
        return field.json.without_secrets(json.decode(value))
    if field.refers == PEOPLE:
        return logins[value]
    if field.column == "repository_id":
        return projects[value]
    return value


def people_in(kind: LineKind, rows: Sequence[Row]) -> set[int]:
    """Return the IDs of the accounts that the rows refer to."""
    columns = [each.column for each in fields_of_kind(kind) if each.refers == PEOPLE]
    return {row[column] for row in rows for column in columns if row[column] is not None}


class BadLine(Exception):
    """An invalid line. The message states the field and the fault."""


def reader_of(kind: type[msgspec.Struct]) -> Callable[[bytes], Any]:
    """Return a parser of lines, which raises `BadLine`."""
    decode = msgspec.json.Decoder(kind).decode

    def read(line: bytes) -> Any:
        if b"\\u0000" in line:
            raise BadLine("it has the character NUL in it, which no text can have")
        try:
            made = decode(line)
            json.require_depth(line)
        except msgspec.ValidationError as error:
            text = str(error)
            found = _AT.search(text)
            raise BadLine(f"{found[1]}: {text[: found.start()]}" if found and found[1] else text) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadLine(f"it is not valid JSON ({error})") from None
        except Malformed as error:
            raise BadLine(error.message) from None
        return made

    return read


FORMAT: Literal["workhook-organization"] = "workhook-organization"
VERSION = 1
"""The version of the format, raised for changes that older servers cannot read."""
LINES_MAX = 50_000_000
"""The maximum number of lines in an export, each of which takes about 200 bytes of memory."""
MANIFEST_MAX_BYTES = 64 << 20
MANIFEST, FILES, PEOPLE_FILE = "manifest.json", "files", "people.jsonl"


class LinesFile(msgspec.Struct, frozen=True):
    """A file of lines: the number of lines and the SHA-256 digest of the file in hexadecimal."""

    lines: int
    sha256: str


class StoredBytes(msgspec.Struct, frozen=True):
    """The contents of `files/`. `missing` contains the IDs of files whose bytes the server had lost."""

    count: int
    bytes: int
    missing: list[str]


class ExportManifest(msgspec.Struct, frozen=True):
    """The manifest, written last. A folder without it is not an export.

    `exported_at` is the time of the snapshot. `lines` describes the files of lines by name.
    """

    format: Literal["workhook-organization"]
    format_version: int
    workhook: str
    server: str
    organization: str
    exported_at: int
    lines: Mapping[str, LinesFile]
    files: StoredBytes


def fault_of_manifest(manifest: ExportManifest, now: int) -> str | None:
    """Return why the manifest is invalid at `now`, or None."""
    if wrong := check_moment(manifest.exported_at):
        return f"exported_at: {wrong}"
    if manifest.exported_at > now + DAY_MS:
        return "exported_at: it is in the future"
    for name, value in (("workhook", manifest.workhook), ("server", manifest.server)):
        if (wrong := check_name(value)) or not value.isprintable():
            return f"{name}: {wrong or 'it must be printable'}"
    if wrong := check_login(manifest.organization):
        return f"organization: {wrong}"
    counts = [each.lines for each in manifest.lines.values()]
    if min([*counts, manifest.files.count, manifest.files.bytes]) < 0 or sum(counts) > LINES_MAX:
        return f"lines: there must be from 0 to {LINES_MAX:,}"
    return None


class MovedPerson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of `people.jsonl`. `email` is set only for members. `kind` is user, bot (of an app), or former."""

    login: str
    name: str | None
    kind: Literal["user", "bot", "former"]
    email: str | None


def faults_of(person: MovedPerson) -> Iterator[tuple[str, str]]:
    """Yield each invalid field with its fault. Logins of bots follow other rules than those of users."""
    login = check_login(person.login) if person.kind == "user" else check_name(person.login)
    name = None if person.name is None else check_account_name(person.name)
    email = None if person.email is None else check_email(person.email)
    yield from ((field, wrong) for field, wrong in (("login", login), ("name", name), ("email", email)) if wrong)
