"""Writes the part of docs/operators/move-an-organization.md that tells of the format, from the kinds of lines.

A test checks that the page is up to date.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workhook import asgi
from workhook.work.portability.moving.kinds import KINDS, STAY, LineKind
from workhook.work.portability.moving.lines import fields_of_kind

PAGE = Path(__file__).parent.parent / "docs" / "operators" / "move-an-organization.md"
HEADING = "## The files of lines\n"
_INTRODUCTION = """
A field with a `?` may be null. `project` is the id of a project, and `user` and `author` are logins of `people.jsonl`.
Fields that end in `_id` hold the id of a line of another file.

Times, such as `created_at`, `due` and `start_time`, are milliseconds since the epoch (UTC). Durations (`_ms`) are
milliseconds, too. Amounts (`_minor`) are whole numbers of the currency's smallest unit, and percents (`_millionths`)
are millionths.

| file | what it holds | fields |
| --- | --- | --- |
| `people.jsonl` | Everybody whom a line names. Only members have an address. | `login, name?, kind, email?` |
"""
_STAY = """
## What stays

These tables of the database are not exported:

| table | why |
| --- | --- |
"""

assert asgi, "it knows every table"


def render() -> str:
    """Return the page from the heading to the end."""
    left = [f"| `{kind.source.name}.{name}` | {why} |" for kind in KINDS for name, why in kind.left_out.items()]
    stay = [f"| `{name}` | {why} |" for name, why in STAY.items()]
    rest = "\nAnd these columns of tables that are:\n\n| column | why |\n| --- | --- |\n"
    return (
        HEADING
        + _INTRODUCTION
        + "\n".join(map(_row, KINDS))
        + "\n"
        + _STAY
        + "\n".join(stay)
        + "\n"
        + rest
        + "\n".join(left)
        + "\n"
    )


def _row(kind: LineKind) -> str:
    return f"| `{kind.name}.jsonl` | {kind.says} | `{', '.join(_fields(kind))}` |"


def _fields(kind: LineKind) -> Iterator[str]:
    for each in fields_of_kind(kind):
        yield f"{each.name}{'?' if each.nullable else ''}"


if __name__ == "__main__":
    before, _, _ = PAGE.read_text().partition(HEADING)
    PAGE.write_text(before + render())
