"""`manifest.json`: what an export is, and by what one sees that it is whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from workhook.core.clock import DAY_MS
from workhook.work.portability.moving.values import check_login, check_moment, check_name

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
