"""The format of an export: conversion between table rows and JSON lines, and the manifest.

The keys of a line are the names of the table's columns, with these exceptions: `repository_id` becomes `project`, the
ID of a project. A column `…_id` that refers to a person loses its `_id` and contains a login. JSON stored in a text
column becomes plain JSON. Times are in milliseconds since the epoch, as in the database.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import DAY_MS
from workhook.core.errors import Malformed
from workhook.core.records import Stored, fields_of
from workhook.storage import Row
from workhook.work.portability.transfer.checks import (
    Check,
    check_account_name,
    check_email,
    check_login,
    check_moment,
    check_name,
    get_check,
)
from workhook.work.portability.transfer.kinds import PEOPLE, PROJECTS, Id, JsonColumn, LineKind, Reference

Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_OWNERS = ("account_id", "organization_id")
_AT = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")


class Field(msgspec.Struct, frozen=True):
    """A field of a line and the column it is stored in. `is_id` marks the field that identifies the line."""

    name: str
    column: str
    type: Any
    nullable: bool
    is_flag: bool
    is_id: bool
    refers: Reference | None
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
    name, refers, is_flag = str(column.name), kind.refers.get(column.name), isinstance(column.type, sa.Boolean)
    plain: Any = bool if is_flag else Number if isinstance(column.type, sa.Integer) else str
    if name == "repository_id":
        refers = Reference(PROJECTS)
    if refers is not None and refers.kind in (PEOPLE, PROJECTS):
        plain = str
    is_id = name == "id"
    if plain is str and (is_id or (refers is not None and refers.may_be_missing)):
        plain = Id
    if name in kind.json:
        plain = kind.json[name].type
    plain = known.get(name, plain)
    is_person = refers is not None and refers.kind == PEOPLE
    return Field(
        name="project" if name == "repository_id" else name.removesuffix("_id") if is_person else name,
        column=name,
        type=plain | None if column.nullable else plain,
        nullable=bool(column.nullable),
        is_flag=is_flag,
        is_id=is_id,
        refers=refers,
        json=kind.json.get(name),
        check=get_check(kind.name, column, is_json=name in kind.json, is_reference=refers is not None),
    )


@cache
def line_type(kind: LineKind) -> type[msgspec.Struct]:
    """Return the struct that validates a line."""
    fields = [(each.name, each.type) for each in fields_of_kind(kind)]
    return msgspec.defstruct(f"{kind.name}_line", fields, forbid_unknown_fields=True, frozen=True)


class ReferenceNames(msgspec.Struct):
    """The exported form of references: logins by account ID, and project IDs by repository ID."""

    logins: dict[int, str] = msgspec.field(default_factory=dict)
    projects: dict[int, str] = msgspec.field(default_factory=dict)


def write_line(kind: LineKind, row: Row, names: ReferenceNames) -> bytes:
    made = {each.name: _shown(each, row[each.column], names) for each in fields_of_kind(kind)}
    return json.on_one_line(json.encode(made)) + b"\n"


def _shown(field: Field, value: Any, names: ReferenceNames) -> object:
    if value is None:
        return None
    if field.is_flag:
        return bool(value)
    if field.json is not None:
        return field.json.without_secrets(json.decode(value))
    if field.refers is not None and field.refers.kind == PEOPLE:
        return names.logins[value]
    if field.column == "repository_id":
        return names.projects[value]
    return value


def people_in(kind: LineKind, rows: Sequence[Row]) -> set[int]:
    """Return the IDs of the accounts that the rows refer to."""
    columns = [each.column for each in fields_of_kind(kind) if each.refers is not None and each.refers.kind == PEOPLE]
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
