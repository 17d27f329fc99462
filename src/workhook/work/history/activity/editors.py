"""Who changed what somebody else had written, as far as the newest events of the project tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from workhook.events.tables import events
from workhook.identity.tables import accounts
from workhook.storage import Reader
from workhook.storage.index_ranges import HIGHEST, Alike, index_range
from workhook.storage.metadata import big
from workhook.storage.statements import PerDialect
from workhook.work.kernel.people import NOBODY_ELSE, PersonShape, person_columns, person_of_row

LOOKS_AT_MOST = 500
"""Events of the kind that are looked at, the newest first."""

Noun = Literal["task_comment", "file_comment", "file_comment_reply", "timesheet"]

_HEAD_BYTES = 120  # of a payload: the action, and the id of the record
_ID = re.compile(rb'^\{"action":"edited","[a-z_]+":\{"id":(?:"([a-z0-9_]+)"|(\d+))[,}]')


class LastEdit(msgspec.Struct, frozen=True):
    """The last change of a record: by whom, and when, in milliseconds since the epoch. None: Workhook itself."""

    by: PersonShape | None
    at: int


def _edits(dialect: str) -> sa.Select[Any]:
    row = events.alias("of_kind")
    alike: list[Alike] = [
        (row.c.repository_id, big("repository_id")),
        (row.c.name, sa.bindparam("name", type_=sa.Text())),
        (row.c.listed, sa.true()),
    ]
    newest = index_range(dialect, alike, row.c.id, newest_first=True).subquery("newest")
    head = sa.func.substr(events.c.payload, sa.literal_column("1"), sa.literal_column(str(_HEAD_BYTES)))
    return (
        sa.select(events.c.id, events.c.created_at, head.label("head"), *person_columns(NOBODY_ELSE))
        .join_from(newest, events, events.c.id == newest.c.id)
        .outerjoin(accounts, accounts.c.id == events.c.actor_id)
        .where(events.c.action == sa.literal_column("'edited'", sa.Text()), sa.not_(events.c.published))
        .order_by(events.c.id.desc())
    )


_EDITS = PerDialect.made_by(_edits)


async def find_last_edits(reader: Reader, repository_id: int, noun: Noun) -> Mapping[str, LastEdit]:
    """By the ids of the records, as texts. The caller sees the records, and so may know who changed them."""
    params = {"repository_id": repository_id, "name": noun, "low": 0, "high": HIGHEST, "limit": LOOKS_AT_MOST}
    found: dict[str, LastEdit] = {}
    for row in await reader.fetch_all(_EDITS, params):
        if (about := _ID.match(bytes(row["head"]))) is not None:
            person = person_of_row(row) if row["user_id"] is not None else None
            found.setdefault((about[1] or about[2]).decode(), LastEdit(person, row["created_at"]))
    return found
