"""`manifest.json`, which says what an export is and whether it is whole, and the lines of `people.jsonl`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from workhook.core.clock import DAY_MS
from workhook.work.portability.moving.values import (
    check_account_name,
    check_email,
    check_login,
    check_moment,
    check_name,
)

FORMAT: Literal["workhook-organization"] = "workhook-organization"
VERSION = 1
"""Of the format. It changes when a server of an earlier version could not read an export, or not whole."""
LINES_MAX = 50_000_000
"""Of an export: what is known of each is held in memory, some 200 bytes."""
MANIFEST_MAX_BYTES = 64 << 20
MANIFEST, FILES, PEOPLE_FILE = "manifest.json", "files", "people.jsonl"


class LinesFile(msgspec.Struct, frozen=True):
    """`lines`: how many. `sha256`: of the file, in hexadecimal."""

    lines: int
    sha256: str


class StoredBytes(msgspec.Struct, frozen=True):
    """What is in `files/`. `missing`: ids of files whose bytes the server had lost; their lines are there."""

    count: int
    bytes: int
    missing: list[str]


class ExportManifest(msgspec.Struct, frozen=True):
    """`format_version`: see `VERSION`. `workhook`: the version of the server; `server`: its address. `exported_at`: the
    moment that everything is of. `lines`: the files of lines, by name. The manifest is written last: a folder without
    one is no export."""

    format: Literal["workhook-organization"]
    format_version: int
    workhook: str
    server: str
    organization: str
    exported_at: int
    lines: Mapping[str, LinesFile]
    files: StoredBytes


def fault_of_manifest(manifest: ExportManifest, now: int) -> str | None:
    """Return what no export says, or None. `now` in milliseconds: an export is not of the future."""
    if wrong := check_moment(manifest.exported_at):
        return f"exported_at: {wrong}"
    if manifest.exported_at > now + DAY_MS:
        return "exported_at: it is in the future"
    for name, value in (("workhook", manifest.workhook), ("server", manifest.server)):
        if (wrong := check_name(value)) or not value.isprintable():
            return f"{name}: {wrong or 'it has to be printable'}"
    if wrong := check_login(manifest.organization):
        return f"organization: {wrong}"
    counts = [each.lines for each in manifest.lines.values()]
    if min([*counts, manifest.files.count, manifest.files.bytes]) < 0 or sum(counts) > LINES_MAX:
        return f"lines: there have to be from 0 to {LINES_MAX:,}"
    return None


class MovedPerson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of `people.jsonl`. `email`: of members, which owners see. `kind`: user, bot (of an app), or former."""

    login: str
    name: str | None
    kind: Literal["user", "bot", "former"]
    email: str | None


def faults_of(person: MovedPerson) -> Iterator[tuple[str, str]]:
    """The fields that are wrong, and what is wrong with each. Only users sign in: bots have other logins."""
    login = check_login(person.login) if person.kind == "user" else check_name(person.login)
    name = None if person.name is None else check_account_name(person.name)
    email = None if person.email is None else check_email(person.email)
    yield from ((field, wrong) for field, wrong in (("login", login), ("name", name), ("email", email)) if wrong)
