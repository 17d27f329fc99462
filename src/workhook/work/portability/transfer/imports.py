"""Import of an organization from a checked export, in one transaction, so that it is never partially visible.

The contents of files are stored before the transaction. If an import is killed, the sweep of the blob store deletes the
unreferenced contents a day later. The import publishes no events, because nothing imported happened on this server.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.errors import Conflict, Invalid, say
from workhook.core.ids import new_id, slug
from workhook.identity import actions, audit
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account
from workhook.identity.tables import accounts, projects
from workhook.storage import Database, Reader, Transaction
from workhook.storage.blobs import Blobs
from workhook.storage.metadata import bigint_param, insert_into, metadata
from workhook.work.board.tasks.schemas import columns, task_buckets
from workhook.work.kernel.durations import whole_seconds
from workhook.work.portability.transfer.kinds import KINDS, PEOPLE, PROJECTS, WITH_BYTES, LineKind
from workhook.work.portability.transfer.lines import FILES, Field, MovedPerson, fields_of_kind, line_type
from workhook.work.portability.transfer.validation import (
    NUMERIC_ID_KINDS,
    CheckedExport,
    NewIds,
    is_plain_file,
    lines_of,
)
from workhook.work.time.timesheets import rules

Progress = Callable[[str, int, int], None]

STORED, WRITTEN = "files stored", "lines written"
_BLOCK = 1 << 20

_as_it_was = (
    sa.update(accounts)
    .where(accounts.c.id == bigint_param("account_id"))
    .values(
        email=sa.bindparam("email"),
        avatar=sa.bindparam("avatar"),
        created_at=bigint_param("created"),
        updated_at=bigint_param("updated"),
    )
)


class ImportedOrganization(msgspec.Struct, frozen=True):
    """The result of an import or its preview. `lines` maps each kind to its number of lines."""

    login: str
    organization_id: int | None
    lines: Mapping[str, int]
    files: int
    files_missing: int
    matched: Mapping[str, str]
    newcomers: list[Newcomer]
    timers_paused: int
    webhooks_off: int


class Plan(msgspec.Struct, frozen=True):
    """An export to import as `login`, with the existing accounts that match its people."""

    checked: CheckedExport
    login: str
    matched: Mapping[str, Account]


async def import_organization(database: Database, blobs: Blobs, plan: Plan, progress: Progress) -> ImportedOrganization:
    """Import everything or nothing.

    Raises `Invalid` if the login is unavailable, `ExportNotUsable` if the export was changed meanwhile, `Unavailable`,
    and `UniqueViolation`.
    """
    if faults := await actions.faults_of_login(database, plan.login):
        raise Invalid(faults=faults)
    stored: dict[str, str] = {}
    try:
        await _store(blobs, plan.checked, stored, progress)
        return await database.in_transaction(lambda tx: _write(tx, plan, stored, progress))
    except BaseException:
        for name in stored.values():
            await blobs.forget(name)
        raise


async def _store(blobs: Blobs, checked: CheckedExport, stored: dict[str, str], progress: Progress) -> None:
    """Store the contents of all files. `stored` receives their names in the blob store by the old IDs."""
    total = sum(checked.count(each) for each in WITH_BYTES)
    for name in WITH_BYTES:
        for old in checked.texts[name].by_old:
            path = checked.folder / FILES / old
            if is_plain_file(path):
                stored[old] = await _store_one(blobs, path)
            progress(STORED, len(stored), total)


async def _store_one(blobs: Blobs, path: Path) -> str:
    async with blobs.incoming() as incoming:
        # Do not follow a symbolic link that replaced the file after the check.
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            while block := await asyncio.to_thread(file.read, _BLOCK):
                await incoming.write(block)
        await incoming.keep()
        return incoming.name


async def _write(tx: Transaction, plan: Plan, stored: Mapping[str, str], progress: Progress) -> ImportedOrganization:
    checked, line = plan.checked, plan.checked.organization
    place = await actions.create_account(tx, "organization", plan.login, name=line.name, email=None)
    params = {"account_id": place.id, "email": line.email, "avatar": line.avatar}
    await tx.execute(_as_it_was, {**params, "created": line.created_at, "updated": line.updated_at})
    people, newcomers = await add_people(tx, checked.people.values(), plan.matched)
    rows = ImportRows(checked, place.id, people, stored)
    await rows.reserve(tx)
    total = sum(each.lines for each in checked.manifest.lines.values())
    done = len(checked.people) + 1
    for kind in KINDS[1:]:
        for _, each in lines_of(checked.folder, f"{kind.name}.jsonl", line_type(kind)):
            await rows.add(tx, kind, each)
            done += 1
            if not done % 500:
                progress(WRITTEN, done, total)
        await rows.end(tx, kind)
    progress(WRITTEN, total, total)
    made = summary(plan, newcomers, place.id, rows.timers_paused)
    detail = {"from": checked.manifest.organization, "server": checked.manifest.server, "lines": total}
    await audit.record(tx, None, "organization.import", place.login, account_id=place.id, detail=detail)
    return made


def summary(plan: Plan, newcomers: list[Newcomer], place_id: int | None, timers: int) -> ImportedOrganization:
    checked = plan.checked
    missing = len(checked.manifest.files.missing)
    return ImportedOrganization(
        login=plan.login,
        organization_id=place_id,
        lines={name.removesuffix(".jsonl"): each.lines for name, each in checked.manifest.lines.items()},
        files=sum(checked.count(each) for each in WITH_BYTES) - missing,
        files_missing=missing,
        matched={old: account.login for old, account in plan.matched.items()},
        newcomers=newcomers,
        timers_paused=timers,
        webhooks_off=checked.count("webhooks"),
    )


ROWS_A_STATEMENT = 250
WEBHOOKS = "webhooks"
_LINKED = {"project": PROJECTS, "column": "columns", "task": "tasks", "task_comment": "task_comments"}

# Delete the buckets that a trigger creates for new columns, because the export contains its own.
_forget_buckets = sa.delete(task_buckets).where(
    task_buckets.c.column_id.in_(
        sa.select(columns.c.id)
        .join_from(columns, projects, projects.c.repository_id == columns.c.repository_id)
        .where(projects.c.account_id == bigint_param("account_id"))
    )
)


@cache
def _insert_of(kind: LineKind) -> sa.Insert:
    without = {"id"} if kind.name == "mentions" else set()
    return insert_into(kind.source, *(each.name for each in kind.source.columns if each.name not in without))


class ImportRows:
    """The rows of one import.

    Call `reserve`, then for each kind in order `add` for every line and `end`. `people` contains account IDs by old
    login, `stored` names in the blob store by old ID.
    """

    def __init__(
        self, checked: CheckedExport, account_id: int, people: Mapping[str, int], stored: Mapping[str, str]
    ) -> None:
        self._checked, self._account_id = checked, account_id
        self._people, self._stored = people, stored
        self._numbers: dict[str, list[int]] = {}
        self._waiting: list[dict[str, object]] = []
        self._later: list[dict[str, object]] = []
        self._webhooks = 0
        self.timers_paused = 0

    async def reserve(self, tx: Transaction) -> None:
        """Reserve IDs for all kinds whose IDs are assigned by the database."""
        for kind in KINDS:
            if kind.name in (*NUMERIC_ID_KINDS, PROJECTS, WEBHOOKS):
                self._numbers[kind.name] = await reserve_numbers(tx, kind.source, self._checked.count(kind.name))

    async def add(self, tx: Transaction, kind: LineKind, line: Any) -> None:
        self._waiting.append(self._row(kind, line))
        if len(self._waiting) >= ROWS_A_STATEMENT:
            await self._flush(tx, kind)

    async def end(self, tx: Transaction, kind: LineKind) -> None:
        await self._flush(tx, kind)
        if self._later:
            table, column = kind.source, kind.deferred_column or ""
            update = sa.update(table).where(table.c.id == sa.bindparam("row_id"))
            await tx.execute_many(update.values({column: sa.bindparam("value")}), self._later)
            self._later = []
        if kind.name == "columns":
            await tx.execute(_forget_buckets, {"account_id": self._account_id})
        elif kind.name == WEBHOOKS:
            lanes = insert_into(metadata.tables["lanes"], "hook_id", "manual_minute", "manual_count")
            empty = {"manual_minute": 0, "manual_count": 0}
            await tx.execute_many(lanes, [{"hook_id": each, **empty} for each in self._numbers[WEBHOOKS]])

    async def _flush(self, tx: Transaction, kind: LineKind) -> None:
        if self._waiting:
            await tx.execute_many(_insert_of(kind), self._waiting)
            self._waiting = []

    def _row(self, kind: LineKind, line: Any) -> dict[str, object]:
        row: dict[str, object] = {each.name: None for each in kind.source.columns}
        row |= {each.column: self._value(kind, each, getattr(line, each.name)) for each in fields_of_kind(kind)}
        for owner in ("account_id", "organization_id"):
            if owner in row:
                row[owner] = self._account_id
        if kind.deferred_column and row[kind.deferred_column] is not None:
            self._later.append({"row_id": row["id"], "value": row[kind.deferred_column]})
            row[kind.deferred_column] = None
        self._complete(kind, line, row)
        return row

    def _value(self, kind: LineKind, field: Field, value: Any) -> object:
        if value is None:
            return None
        if field.json is not None:
            ids = [self._checked.texts[each] for each in field.json.ids_of]
            return json.encode_text(_renamed(json.decode(json.encode(value)), ids) if ids else value)
        if field.refers is not None:
            if field.refers == PEOPLE:
                return self._people[value]
            return self._number(PROJECTS, value) if field.refers == PROJECTS else self._named(field.refers, value)
        if field.is_id:
            return self._named(kind.name, value)
        return value

    def _named(self, kind: str, old: Any) -> object:
        """Return the new ID of a line."""
        if kind == "task_buckets":
            return self._checked.buckets[old]
        return self._number(kind, old) if kind in NUMERIC_ID_KINDS else self._checked.texts[kind].get(old)

    def _number(self, kind: str, old: Any) -> int:
        return self._numbers[kind][self._checked.places[kind][old]]

    def _complete(self, kind: LineKind, line: Any, row: dict[str, object]) -> None:
        """Set the columns that a line does not contain."""
        if kind.name == PROJECTS:
            number, key = self._number(PROJECTS, line.id), key_of(line.name)
            row |= {"repository_id": number, "name_key": f"{key}#{number}" if line.deleted_at is not None else key}
        elif kind.name == "columns":
            row["revision"] = 0
        elif kind.name == "task_buckets":
            row["size"] = 0  # maintained by a trigger
        elif "blob" in row:
            row["blob"] = self._stored.get(line.id) or new_id("blb")  # lost bytes get a name missing from the store
        elif kind.name == WEBHOOKS:
            row |= {"id": self._numbers[WEBHOOKS][self._webhooks], "active": False, "version": 1}
            self._webhooks += 1
        elif kind.name == "timesheets":
            self._count_whole_seconds(line, row)
        elif kind.name == "import_links":
            row["internal_id"] = self._made(line.kind, line.internal_id)

    def _count_whole_seconds(self, line: Any, row: dict[str, object]) -> None:
        """Round the duration to whole seconds, and pause a running timer."""
        if not line.is_active:
            row["duration_ms"] = whole_seconds(line.duration_ms)
            return
        times = rules.Times(
            start=line.start_time, running_since=line.running_since, counted_ms=line.duration_ms, is_active=True
        )
        paused = rules.paused(times, self._checked.manifest.exported_at)
        row |= {"is_active": False, "running_since": None, "duration_ms": paused.counted_ms}
        self.timers_paused += 1

    def _made(self, kind: str, old: str) -> str:
        """Return the new ID of a record imported from another tool."""
        target = _LINKED.get(kind)
        if target in NUMERIC_ID_KINDS:
            ids = self._checked.places.get(target, {})
            return str(self._number(target, int(old))) if old.isdecimal() and int(old) in ids else "0"
        return self._checked.texts[target].get(old) if target else old


def _renamed(value: Any, ids: list[NewIds]) -> Any:
    """Replace old IDs inside JSON."""
    if isinstance(value, list):
        return [_renamed(each, ids) for each in value]
    if isinstance(value, dict):
        return {name: _renamed(each, ids) for name, each in value.items()}
    if isinstance(value, str):
        return next((each.by_old[value] for each in ids if value in each.by_old), value)
    return value


_LOGIN_MAX_CHARS = 39
_LOGINS_TRIED_MAX = 1_000
_FORMER = "former"
_insert = insert_into(
    accounts, "kind", "login", "login_key", "name", "email", "avatar", "created_at", "updated_at", "disabled_at"
).returning(accounts.c.id)


class Newcomer(msgspec.Struct, frozen=True):
    """A new account.

    `was` is the login on the other server. `kind` is user, or former for a person who cannot sign in.
    """

    was: str
    login: str
    kind: str


async def assign_logins(
    reader: Reader, people: Iterable[MovedPerson], matched: Mapping[str, Account]
) -> list[tuple[MovedPerson, Newcomer]]:
    """Return the logins of new accounts, with a number appended to logins already in use."""
    taken: set[str] = set()
    found = []
    for each in people:
        if each.login not in matched:
            login = await _free_login(reader, each, taken)
            taken.add(key_of(login))
            found.append((each, Newcomer(each.login, login, "user" if each.kind == "user" else _FORMER)))
    return found


async def _free_login(reader: Reader, person: MovedPerson, taken: set[str]) -> str:
    base = person.login if person.kind == "user" else slug(person.login, _LOGIN_MAX_CHARS - 5, otherwise=_FORMER)
    login = base
    for number in range(2, _LOGINS_TRIED_MAX):
        if key_of(login) not in taken and not await actions.faults_of_login(reader, login):
            return login
        ending = f"-{number}"
        login = f"{slug(base, _LOGIN_MAX_CHARS - len(ending), otherwise=_FORMER)}{ending}"
    raise Conflict(say("Every login similar to {} is taken.", base), code="logins_taken")


async def add_people(
    tx: Transaction, people: Iterable[MovedPerson], matched: Mapping[str, Account]
) -> tuple[dict[str, int], list[Newcomer]]:
    """Create accounts for people who match none. Returns account IDs by old login, and the new accounts."""
    now = now_ms()
    ids = {old: account.id for old, account in matched.items()}
    named = await assign_logins(tx, people, matched)
    for person, each in named:
        values = {"kind": each.kind, "login": each.login, "login_key": key_of(each.login), "name": person.name}
        fixed = {"email": None, "avatar": None, "created_at": now, "updated_at": now, "disabled_at": now}
        row = await tx.fetch_row(_insert, {**values, **fixed})
        ids[person.login] = row["id"]
    return ids, [each for _, each in named]


_sequences = sa.table("sqlite_sequence", sa.column("name", sa.Text), sa.column("seq", sa.BigInteger))
_last = sa.select(sa.func.max(_sequences.c.seq).label("last")).where(_sequences.c.name == sa.bindparam("name"))


async def reserve_numbers(tx: Transaction, table: sa.Table, count: int) -> list[int]:
    """Return `count` new IDs of an auto-incrementing table in ascending order, reserved for this transaction."""
    if not count:
        return []
    column = next(iter(table.primary_key.columns))
    if tx.dialect == "postgresql":
        sequence = sa.func.pg_get_serial_sequence(table.name, column.name)
        row = sa.func.generate_series(1, bigint_param("count")).table_valued("n")
        statement = sa.select(sa.func.nextval(sequence).label("number")).select_from(row)
        return sorted(each["number"] for each in await tx.fetch_all(statement, {"count": count}))
    # The transaction has the only write lock, so the last ID cannot change before it ends.
    used = await tx.fetch_one(sa.select(sa.func.max(column).label("last")))
    stored = await tx.fetch_one(_last, {"name": table.name})
    last = max((used and used["last"]) or 0, (stored and stored["last"]) or 0)
    return list(range(last + 1, last + 1 + count))
