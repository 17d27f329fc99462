"""`manifest.json`: what an export is, and by what one sees that it is whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

FORMAT: Literal["workhook-organization"] = "workhook-organization"
VERSION = 1
"""Of the format. It changes when a server of an earlier version could not read an export, or not whole."""
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
