"""Exports of organizations, read so that two can be compared: what has an id has its place instead."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.cli.cli_kit import Cli
from workhook.work.moving.kinds import KINDS

ID = re.compile(r"[a-z]{3,4}_[0-9a-z]{26}")
NUMBERED = ("task_comments", "file_comments", "file_comment_replies")

Lines = dict[str, list[Any]]


def lines_of(folder: Path) -> Lines:
    """By the names of the kinds, and `people`."""
    names = [*(each.name for each in KINDS), "people"]
    return {name: [json.loads(each) for each in (folder / f"{name}.jsonl").read_bytes().splitlines()] for name in names}


def comparable(lines: Lines, logins: dict[str, str]) -> Lines:
    """The lines with their places for ids, and other logins: the order of what has no id does not count. What the
    import changes is as after an import."""
    names = {each["id"]: f"{kind}#{place}" for kind in lines for place, each in enumerate(lines[kind]) if "id" in each}
    made = {kind: [_renamed(each, names, logins, kind) for each in lines[kind]] for kind in lines}
    for each in made["webhooks"]:
        each["active"] = False
    made["people"] = []
    stretches = {
        number: f"{each['column_id']}/{each['rank']}"
        for number, each in zip([each["id"] for each in lines["task_buckets"]], made["task_buckets"], strict=True)
    }
    for each, was in zip(made["tasks"], lines["tasks"], strict=True):
        each["bucket_id"] = stretches.get(was["bucket_id"])
    for each in made["task_buckets"]:
        each["id"] = f"{each['column_id']}/{each['rank']}"
    return {kind: sorted(made[kind], key=lambda each: json.dumps(each, sort_keys=True)) for kind in made}


def _renamed(value: Any, names: dict[Any, str], logins: dict[str, str], kind: str) -> Any:
    if isinstance(value, list):
        return [_renamed(each, names, logins, kind) for each in value]
    if isinstance(value, dict):
        return {key: _field(key, each, names, logins, kind) for key, each in value.items()}
    if isinstance(value, str) and ID.fullmatch(value):
        return names.get(value, "gone")
    return value


def _field(key: str, value: Any, names: dict[Any, str], logins: dict[str, str], kind: str) -> Any:
    if key in ("user", "author") and isinstance(value, str):
        return logins.get(value, value)
    if isinstance(value, int) and (key in ("task_comment_id", "file_comment_id", "file_comment_reply_id")):
        return names[value]
    if key == "id" and kind in NUMBERED:
        return names[value]
    if key == "internal_id" and value.isdecimal():
        return names.get(int(value), "gone")
    return _renamed(value, names, logins, kind)


def export(cli: Cli, folder: Path, login: str) -> Lines:
    cli.json("organization", "export", str(folder), "--organization", login)
    return lines_of(folder)


def members(people: Iterable[Any]) -> list[str]:
    """The users of an export, as options that say that each has the same login here."""
    return [word for each in people if each["kind"] == "user" for word in ("--member", f"{each['login']}={each['login']}")]
