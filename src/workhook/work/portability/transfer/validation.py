"""Validation of an export before anything is written: manifest, checksums, lines, references, and account balances."""

from __future__ import annotations

import hashlib
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import DAY_MS, now_ms
from workhook.core.ids import base32
from workhook.core.json import has_more_values
from workhook.identity.queries import key_of
from workhook.work.board.tasks.column_order import new_bucket_id
from workhook.work.money.invoices import rules
from workhook.work.money.invoices.rules import Balance, Discount, TaxRate, TaxRow, discount_fault, rate_fault
from workhook.work.portability.transfer.kinds import KINDS, PEOPLE, PROJECTS, WITH_BYTES, LineKind
from workhook.work.portability.transfer.lines import (
    FILES,
    FORMAT,
    MANIFEST,
    MANIFEST_MAX_BYTES,
    PEOPLE_FILE,
    VERSION,
    BadLine,
    ExportManifest,
    MovedPerson,
    fault_of_manifest,
    faults_of,
    fields_of_kind,
    line_type,
    reader_of,
)

Progress = Callable[[str, int, int], None]
CheckUrl = Callable[[str], str | None]

CHECKED = "lines checked"
FAULTS_MAX = 20
LINE_MAX_BYTES = 64 << 20
LINE_VALUES_MAX = 1_000_000
RUNNING_MAX_MS = 10 * 366 * DAY_MS
"""A forgotten timer may run for years, but must not overflow sums."""
NUMERIC_ID_KINDS = ("task_comments", "file_comments", "file_comment_replies")
"""Kinds whose IDs are numbers assigned by the database."""


class ExportNotUsable(Exception):
    """The faults of an export, one sentence each."""

    def __init__(self, *faults: str) -> None:
        super().__init__(*faults)
        self.faults = faults


_HEAD_CHARS, _TAIL_CHARS = 10, 16  # of the 26 characters of an ID: the timestamp and the random part
_STEP_BITS = 40


class NewIds:
    """New IDs for a kind with text IDs such as `tsk_…`. Takes about 200 bytes of memory per ID.

    A new ID keeps the timestamp and gets another random part, so that new IDs sort like the old ones. `chosen` contains
    new IDs that are derived from other IDs, by old ID.
    """

    def __init__(self) -> None:
        self.by_old: dict[str, str] = {}
        self.chosen: dict[str, str] = {}
        self._head, self._tail = "", 0

    def add(self, old: str) -> str:
        """Create the new ID for `old`. Must be called in the order of the old IDs."""
        prefix, _, rest = old.partition("_")
        head = rest[:_HEAD_CHARS]
        same = head == self._head
        self._tail = self._tail + 1 + secrets.randbits(_STEP_BITS) if same else secrets.randbits(5 * _TAIL_CHARS - 1)
        self._head = head
        new = f"{prefix}_{head}{base32(self._tail, _TAIL_CHARS)}"
        self.by_old[old] = new = self.chosen.get(old, new)
        return new

    def get(self, old: str) -> str:
        """Return the new ID. A record that no longer exists gets an unused ID."""
        return self.by_old.get(old) or self.add(old)


class CheckedExport(msgspec.Struct):
    """A valid export, and the new IDs of its records.

    `texts` contains the new IDs by kind. `places` contains the positions of old IDs of the kinds in `NUMERIC_ID_KINDS`,
    `projects` and `webhooks`: the n-th old ID gets the n-th reserved number. `buckets` contains the new IDs of task
    buckets. `timers` is the number of running timers.
    """

    folder: Path
    manifest: ExportManifest
    people: dict[str, MovedPerson] = msgspec.field(default_factory=dict)
    texts: dict[str, NewIds] = msgspec.field(default_factory=lambda: defaultdict(NewIds))
    places: dict[str, dict[int | str, int]] = msgspec.field(default_factory=lambda: defaultdict(dict))
    buckets: dict[int, int] = msgspec.field(default_factory=dict)
    owners: list[str] = msgspec.field(default_factory=list)
    timers: int = 0
    organization: Any = None

    def known(self, kind: str) -> Any:
        """Return the records of a kind read so far, by old ID."""
        if kind == PEOPLE:
            return self.people
        if kind == "task_buckets":
            return self.buckets
        if kind in NUMERIC_ID_KINDS:
            return self.places[kind]
        return self.texts[kind].by_old

    def count(self, kind: str) -> int:
        return self.manifest.lines[f"{kind}.jsonl"].lines


def check(folder: Path, progress: Progress, check_url: CheckUrl) -> CheckedExport:
    """Validate an export. Raises `ExportNotUsable` and `OSError`.

    `check_url` returns why a webhook could not be delivered to a URL, or None.
    """
    manifest = _read_manifest(folder)
    checker = _Checker(CheckedExport(folder, manifest), progress, check_url)
    return checker.check()


def _read_manifest(folder: Path) -> ExportManifest:
    path = folder / MANIFEST
    if not is_plain_file(path):
        raise ExportNotUsable(f"{path} is missing: this is not an export, or it was interrupted")
    if path.stat().st_size > MANIFEST_MAX_BYTES:
        raise ExportNotUsable(f"{path} is larger than {MANIFEST_MAX_BYTES >> 20} MiB")
    data = path.read_bytes()
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.format != FORMAT:
            raise ExportNotUsable(f"{path} is of the format {head.format!r}, not {FORMAT!r}")
        if head.format_version > VERSION:
            raise ExportNotUsable(
                f"the export has version {head.format_version} of the format, but this version of Workhook reads up to "
                f"{VERSION}: import it with a newer version"
            )
        manifest = msgspec.json.decode(data, type=ExportManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ExportNotUsable(f"{path}: {error}") from error
    wanted = {f"{each.name}.jsonl" for each in KINDS} | {PEOPLE_FILE}
    if wrong := fault_of_manifest(manifest, now_ms()):
        raise ExportNotUsable(f"{path}: {wrong}")
    if missing := sorted(wanted - manifest.lines.keys()):
        raise ExportNotUsable(f"{path} does not list {', '.join(missing)}")
    if unknown := sorted(manifest.lines.keys() - wanted):
        raise ExportNotUsable(f"{path} lists {', '.join(unknown)}, which this version does not know")
    return manifest


class _Head(msgspec.Struct):
    format: str
    format_version: int


def lines_of(folder: Path, name: str, kind: type[msgspec.Struct]) -> Iterator[tuple[int, Any]]:
    """Yield each line with its number, starting at 1. Raises `ExportNotUsable` at the first invalid line."""
    read = reader_of(kind)
    with (folder / name).open("rb") as file:
        number = 0
        while line := file.readline(LINE_MAX_BYTES):
            number += 1
            if has_more_values(line, LINE_VALUES_MAX):
                raise ExportNotUsable(f"{name}, line {number}: it has more than {LINE_VALUES_MAX:,} values")
            try:
                yield number, read(line)
            except BadLine as error:
                raise ExportNotUsable(f"{name}, line {number}: {error}") from None


class _Checker:
    def __init__(self, checked: CheckedExport, progress: Progress, check_url: CheckUrl) -> None:
        self.checked = checked
        self._check_url = check_url
        self._progress = progress
        self._faults: list[str] = []
        self._total = sum(each.lines for each in checked.manifest.lines.values())
        self._done = 0
        self._later: list[tuple[str, str]] = []
        self._books: dict[str, list[int]] = {}
        self._credited: dict[str, CreditedRates] = {}
        self._stretched: set[str] = set()  # columns with at least one bucket

    def check(self) -> CheckedExport:
        self._check_sums()
        self._read_people()
        for kind in KINDS:
            self._check_kind(kind)
        self._check_books()
        self._stop_if_faulty()
        return self.checked

    def _fault(self, text: str) -> None:
        self._faults.append(text)
        if len(self._faults) >= FAULTS_MAX:
            self._stop_if_faulty()

    def _stop_if_faulty(self) -> None:
        if self._faults:
            raise ExportNotUsable(*self._faults)

    def _check_sums(self) -> None:
        folder = self.checked.folder
        for name, facts in self.checked.manifest.lines.items():
            path = folder / name
            if not is_plain_file(path):
                self._fault(f"{name} is missing or not a regular file")
            elif _sha256(path) != facts.sha256:
                self._fault(f"{name} does not match the manifest: it was changed or truncated (sha256 differs)")
        self._stop_if_faulty()

    def _read_people(self) -> None:
        seen: set[str] = set()
        for number, person in lines_of(self.checked.folder, PEOPLE_FILE, MovedPerson):
            if key_of(person.login) in seen:
                self._fault(f"{PEOPLE_FILE}, line {number}, login: {person.login} occurs more than once")
            for field, wrong in faults_of(person):
                self._fault(f"{PEOPLE_FILE}, line {number}, {field}: {wrong}")
            seen.add(key_of(person.login))
            self.checked.people[person.login] = person
            self._step()
        self._stop_if_faulty()  # otherwise a missing person would cause a fault in every line that refers to them

    def _step(self) -> None:
        self._done += 1
        if not self._done % 1000 or self._done == self._total:
            self._progress(CHECKED, self._done, self._total)

    def _check_kind(self, kind: LineKind) -> None:
        fields, name, keys = fields_of_kind(kind), f"{kind.name}.jsonl", Keys(kind)
        for number, line in lines_of(self.checked.folder, name, line_type(kind)):
            self._step()
            place = f"{name}, line {number}"
            self._name_it(kind, line, place)
            for key in keys.add(number, line):
                self._fault(f"{place}, {key}")
            good = True
            for each in fields:
                value = getattr(line, each.name)
                if each.check is not None and value is not None and (wrong := each.check(value)):
                    good = False
                    self._fault(f"{place}, {each.name}: {wrong}")
                if each.refers is None or value is None or each.may_be_missing:
                    continue
                if each.refers == kind.name:
                    self._later.append((f"{place}, {each.name}", value))
                elif value not in self.checked.known(each.refers):
                    self._fault(f"{place}, {each.name}: {value} does not exist in {each.refers}.jsonl")
            if kind.name in WITH_BYTES:
                self._check_bytes(line, place)
            if good:  # sums need valid values
                self._check_sums_of(kind, line, place)
                self._check_running(kind, line, place)
            self._note(kind, line, place)
        for place, old in self._later:
            if old not in self.checked.known(kind.name):
                self._fault(f"{place}: {old} does not exist in {name}")
        self._later.clear()
        if kind.name == "task_buckets":  # a column without a bucket cannot take tasks
            for column_id in self.checked.texts["columns"].by_old.keys() - self._stretched:
                self._fault(f"task_buckets.jsonl: the column {column_id} has no line")

    def _name_it(self, kind: LineKind, line: Any, place: str) -> None:
        """Assign a new ID to the line."""
        if not hasattr(line, "id"):
            return
        checked, known = self.checked, self.checked.known(kind.name)
        if line.id in known:
            self._fault(f"{place}, id: {line.id} occurs more than once")
        elif kind.name == "task_buckets":
            known[line.id] = new_bucket_id()
        elif kind.name in NUMERIC_ID_KINDS:
            known[line.id] = len(known)
        else:
            new = checked.texts[kind.name].add(line.id)
            if kind.name == PROJECTS:
                places = checked.places[PROJECTS]
                places[line.id] = len(places)
            if kind.name == "invoices":  # a payment without its own record shares its invoice's ID
                chosen = checked.texts["payments"].chosen
                chosen[line.id.replace("inv_", "pay_", 1)] = new.replace("inv_", "pay_", 1)

    def _check_bytes(self, line: Any, place: str) -> None:
        path = self.checked.folder / FILES / line.id
        if path.is_symlink() or path.parent.is_symlink():
            self._fault(f"{place}: {FILES}/{line.id} is a link, not a file")
        elif not is_plain_file(path):
            if line.id not in self.checked.manifest.files.missing:
                self._fault(f"{place}: {FILES}/{line.id} is missing")
        elif path.stat().st_size != line.size or _sha256(path) != line.sha256:
            self._fault(f"{place}: {FILES}/{line.id} does not match the line (sha256 differs)")

    def _check_sums_of(self, kind: LineKind, line: Any, place: str) -> None:
        if kind.name == "invoices" and line.status != "draft":
            if line.seller is None:
                self._fault(f"{place}, seller: required for an invoice that was sent")
            faults = faults_of_invoice(line)
        elif kind.name == "credit_notes":
            faults = faults_of_credit_note(line)
        else:
            return
        for field, wrong in faults:
            self._fault(f"{place}, {field}: {wrong}")

    def _check_running(self, kind: LineKind, line: Any, place: str) -> None:
        """Limit how long a timer ran before the export, where the import pauses it."""
        if kind.name != "timesheets" or not line.is_active:
            return
        since = line.running_since if line.running_since is not None else line.start_time
        ran_ms = self.checked.manifest.exported_at - since  # may be negative if the clocks of two machines differ
        if not -DAY_MS <= ran_ms <= RUNNING_MAX_MS:
            self._fault(f"{place}, running_since: inconsistent with the time of the export")

    def _note(self, kind: LineKind, line: Any, place: str) -> None:
        """Record values that are checked across lines later."""
        if kind.name == "organization":
            if self.checked.organization is not None:
                self._fault(f"{place}: there is more than one organization")
            self.checked.organization = line
        elif kind.name == "members" and line.role == "owner":
            self.checked.owners.append(line.user)
        elif kind.name == "webhooks" and (wrong := self._check_url(str(line.config.get("url", "")))):
            self._fault(f"{place}, config: {wrong}")
        elif kind.name == "task_buckets":
            self._stretched.add(line.column_id)
        elif kind.name == "timesheets":
            self.checked.timers += line.is_active
        elif kind.name == "invoices" and line.status not in ("draft", "void"):
            books = Balance(line.total_minor, line.paid_minor or 0, line.credited_minor or 0)
            if line.status != books.status:
                self._fault(f"{place}, status: must be {books.status}, given its payments and credit notes")
            self._books[line.id] = [books.paid, books.credited]
            self._credited[line.id] = CreditedRates(line.taxes)
        elif kind.name == "payments" and line.invoice_id in self._books:
            self._books[line.invoice_id][0] -= line.amount_minor
        elif kind.name == "credit_notes" and line.invoice_id in self._books:
            self._books[line.invoice_id][1] -= line.total_minor
            self._credited[line.invoice_id].add(line.taxes)

    def _check_books(self) -> None:
        if self.checked.organization is None:
            self._fault("organization.jsonl contains no organization")
        for invoice_id, (paid, credited) in self._books.items():
            if paid:
                self._fault(f"invoices.jsonl, {invoice_id}, paid_minor: it is not the sum of its payments")
            if credited:
                self._fault(f"invoices.jsonl, {invoice_id}, credited_minor: it is not the sum of its credit notes")
            if wrong := self._credited[invoice_id].fault():
                self._fault(f"credit_notes.jsonl, credit notes of {invoice_id}, taxes: {wrong}")


def is_plain_file(path: Path) -> bool:
    """Return whether the path is a regular file, not a symbolic link, which could lead to any file on this machine."""
    return path.is_file() and not path.is_symlink()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_OWNERS = frozenset({"account_id", "organization_id"})


class Keys:
    """The unique keys of the lines of one kind read so far."""

    def __init__(self, kind: LineKind) -> None:
        self._kind = kind
        self._seen: dict[tuple[object, ...], int] = {}

    def add(self, number: int, line: Any) -> Iterator[str]:
        """Yield the repeated keys of line `number`, such as `invoice_number: 7 already occurs in line 2`."""
        for names in keys_of(self._kind):
            values = tuple(getattr(line, each) for each in names)
            if None in values:
                continue
            first = self._seen.setdefault((names, *values), number)
            if first != number and names:
                yield f"{', '.join(names)}: {', '.join(map(str, values))} already occurs in line {first}"
            elif first != number:
                yield "there can be only one line"
        if self._kind.name == PROJECTS and line.deleted_at is None:
            first = self._seen.setdefault(("name", key_of(line.name)), number)
            if first != number:
                yield f"name: {line.name} already occurs in line {first}"


@cache
def keys_of(kind: LineKind) -> tuple[tuple[str, ...], ...]:
    """Return the fields of each unique key, except IDs and values that the import assigns."""
    names = {each.column: each.name for each in fields_of_kind(kind)}
    unique: list[sa.PrimaryKeyConstraint | sa.UniqueConstraint | sa.Index] = [kind.source.primary_key]
    unique += [each for each in kind.source.constraints if isinstance(each, sa.UniqueConstraint)]
    unique += [each for each in kind.source.indexes if each.unique]
    found = []
    for key in unique:
        rest = {each.name for each in key.columns} - _OWNERS
        if rest <= names.keys() and rest != {"id"} and kind.name != "timesheets":  # its key is partial
            found.append(tuple(names[each.name] for each in kind.source.columns if each.name in rest))
    return tuple(found)


class CreditedRates:
    """The amounts of an invoice still uncredited at each tax rate, as its credit notes are read."""

    def __init__(self, billed: Sequence[TaxRow]) -> None:
        self._left = {(each.millionths, each.category): [each.base, each.tax] for each in billed}
        self._is_foreign = False

    def add(self, taxes: Sequence[TaxRow]) -> None:
        for each in taxes:
            left = self._left.get((each.millionths, each.category))
            if left is None:
                self._is_foreign = True
                continue
            left[0] -= each.base
            left[1] -= each.tax

    def fault(self) -> str | None:
        if self._is_foreign:
            return "they credit a rate that the invoice does not have"
        if any(min(each) < 0 for each in self._left.values()):
            return "they credit more at a rate than the invoice has"
        return None


def faults_of_invoice(line: Any) -> Iterator[tuple[str, str]]:
    """Yield each wrong field with its fault. Each value has already been validated on its own."""
    items = [item for each in (line.items, line.recurring_items) for item in rules.items_of(json.encode_text(each))]
    for number, item in enumerate(items, 1):
        for fault in rules.item_faults(item, f"line {number} of the invoice, "):
            yield "items", str(fault.message)
            return
    nets = sum(each.amount_minor for each in items)
    if wrong := rate_fault(line.tax_millionths, line.tax_category):
        yield "tax_category", wrong
        return
    discount = Discount(line.discount_millionths, line.discount_minor)
    if wrong := discount_fault(discount.millionths, discount.minor, {"the sum of the lines": nets}):
        yield "discount_minor", wrong
        return
    sums = rules.sums_of_items(items, TaxRate(line.tax_millionths, line.tax_category), discount)
    if line.amount_minor != sums.amount:
        yield "amount_minor", f"its lines and discounts add up to {sums.amount}"
    if line.total_minor != sums.total:
        yield "total_minor", f"its lines, discounts, and taxes add up to {sums.total}"
    if tuple(line.taxes) != sums.taxes:
        yield "taxes", "they do not match its lines"


def faults_of_credit_note(line: Any) -> Iterator[tuple[str, str]]:
    """Yield each wrong field with its fault. A credit note need not have line items."""
    if line.amount_minor != sum(each.base for each in line.taxes):
        yield "amount_minor", "it is not the sum of the taxed amounts"
    if line.total_minor != sum(each.gross for each in line.taxes):
        yield "total_minor", "it is not the sum of the taxed amounts and the taxes"
