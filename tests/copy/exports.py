"""Exports of organizations in a comparable form, in which IDs are replaced by positions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.cli.cli_kit import Cli
from workhook.work.portability.transfer.kinds import KINDS

ID = re.compile(r"[a-z]{3,4}_[0-9a-z]{26}")

Lines = dict[str, list[Any]]


def lines_of(folder: Path) -> Lines:
    """Return the lines of an export by kind, and its `people`."""
    names = [*(each.name for each in KINDS), "people"]
    return {name: [json.loads(each) for each in (folder / f"{name}.jsonl").read_bytes().splitlines()] for name in names}


Places = dict[tuple[str, Any], str]
_REFERS = {
    "task_comment_id": "task_comments",
    "file_comment_id": "file_comments",
    "file_comment_reply_id": "file_comment_replies",
}


def comparable(lines: Lines, logins: dict[str, str]) -> Lines:
    """Return the lines as an import would store them, with positions for IDs and logins mapped by `logins`.

    The order of lines without an ID is ignored.
    """
    places: Places = {}
    for kind, rows in lines.items():
        for place, each in enumerate(rows):
            if isinstance(each.get("id"), str):
                places["", each["id"]] = f"{kind}#{place}"
            elif "id" in each:
                places[kind, each["id"]] = f"{kind}#{place}"
    for each in lines["task_buckets"]:
        places["task_buckets", each["id"]] = f"{places['', each['column_id']]}/{each['rank']}"
    made = {kind: [_line(kind, each, places, logins) for each in rows] for kind, rows in lines.items()}
    for each in made["webhooks"]:
        each["active"] = False
    made["people"] = []
    return {kind: sorted(made[kind], key=lambda each: json.dumps(each, sort_keys=True)) for kind in made}


def _line(kind: str, line: Any, places: Places, logins: dict[str, str]) -> Any:
    return {key: _field(kind, key, value, places, logins) for key, value in line.items()}


def _field(kind: str, key: str, value: Any, places: Places, logins: dict[str, str]) -> Any:
    if key in ("user", "author") and isinstance(value, str):
        return logins.get(value, value)
    if isinstance(value, int) and key in _REFERS:
        return places[_REFERS[key], value]
    if key == "bucket_id" and value is not None:
        return places["task_buckets", value]
    if key == "id" and isinstance(value, int):
        return places[kind, value]
    if key == "internal_id" and value.isdecimal():
        return places.get(("task_comments", int(value)), "gone")
    return _placed(value, places)


def _placed(value: Any, places: Places) -> Any:
    if isinstance(value, list):
        return [_placed(each, places) for each in value]
    if isinstance(value, dict):
        return {key: _placed(each, places) for key, each in value.items()}
    if isinstance(value, str) and ID.fullmatch(value):
        return places.get(("", value), "gone")
    return value


def pause(lines: Lines, folder: Path) -> None:
    """Stop running timers, as an import does."""
    at = json.loads((folder / "manifest.json").read_bytes())["exported_at"]
    for each in lines["timesheets"]:
        if each["is_active"]:
            each["duration_ms"] = (each["duration_ms"] + at - each["running_since"]) // 1000 * 1000
            each |= {"is_active": False, "running_since": None}


def export(cli: Cli, folder: Path, login: str) -> Lines:
    cli.json("organization", "export", str(folder), "--organization", login)
    return lines_of(folder)


def members(people: Iterable[Any]) -> list[str]:
    """Return options which map each user of an export to the same login."""
    return [
        word for each in people if each["kind"] == "user" for word in ("--member", f"{each['login']}={each['login']}")
    ]


def differences(one: Lines, other: Lines) -> list[tuple[str, Any, Any]]:
    """Return the lines that differ, each with its kind."""
    return [
        (kind, mine, theirs) for kind in one for mine, theirs in zip_longest(one[kind], other[kind]) if mine != theirs
    ]
