"""Write the description of the format in docs/operators/move-an-organization.md from the kinds of lines.

`check_repository` compares the two.

python -m scripts.write_export_format
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workhook import asgi
from workhook.work.portability.transfer.kinds import KINDS, LineKind
from workhook.work.portability.transfer.lines import fields_of_kind

PAGE = Path(__file__).parent.parent / "docs" / "operators" / "move-an-organization.md"
HEADING = "## File format\n"
_INTRODUCTION = """
Fields marked with `?` can be null. `project` is the ID of a project; `user` and `author` are logins in `people.jsonl`.
Fields that end in `_id` contain the ID of a line in another file.

Times, such as `created_at`, `due`, and `start_time`, are milliseconds since the epoch (UTC), and durations (`_ms`) are
milliseconds. Amounts (`_minor`) are whole numbers of the currency's smallest unit, and percentages (`_millionths`) are
millionths.

| file | content | fields |
| --- | --- | --- |
| `people.jsonl` | Everyone named in a line. Only members have an address. | `login, name?, kind, email?` |
"""
assert asgi, "importing it registers every table"


def render() -> str:
    """Return the whole page, with the part from the heading on made from the kinds of lines."""
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(HEADING)
    return before + HEADING + _INTRODUCTION + "\n".join(map(_row, KINDS)) + "\n"


def _row(kind: LineKind) -> str:
    return f"| `{kind.name}.jsonl` | {kind.description} | `{', '.join(_fields(kind))}` |"


def _fields(kind: LineKind) -> Iterator[str]:
    for each in fields_of_kind(kind):
        yield f"{each.name}{'?' if each.nullable else ''}"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
