"""Saved board filters, which are private to a user and publish no events."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from workhook.core import json
from workhook.identity.context import Write
from workhook.storage import Reader
from workhook.storage.dialects import upsert
from workhook.storage.metadata import Millis, bigint_param, in_project, of_account, plain_table
from workhook.storage.record_rows import assigned
from workhook.work.kernel.access import Access

# One row per user and project with a filtered board.
board_filters = plain_table(
    "board_filters",
    of_account("user_id", primary_key=True),
    in_project(primary_key=True),
    sa.Column("filters", sa.Text, nullable=False),  # JSON object of filter names and values
    sa.Column("updated_at", Millis, nullable=False),
    sa.Index("ix_board_filters_repository_id", "repository_id"),
)

_of_user_in_project = (
    board_filters.c.user_id == bigint_param("user_id"),
    board_filters.c.repository_id == bigint_param("repository_id"),
)
_find = sa.select(board_filters.c.filters).where(*_of_user_in_project)
_save = (
    upsert(board_filters)
    .values(assigned(("user_id", "repository_id", "filters", "updated_at")))
    .on_conflict_do_update(
        index_elements=["user_id", "repository_id"],
        set_={"filters": sa.bindparam("filters"), "updated_at": bigint_param("updated_at")},
    )
)
_clear = sa.delete(board_filters).where(*_of_user_in_project)


async def find_filters(reader: Reader, access: Access) -> dict[str, str]:
    """Return the filters that the caller last used on this project's board, or an empty dict."""
    row = await reader.fetch_one(_find, _key(access))
    return {} if row is None else json.decode(row["filters"])


async def save_filters(write: Write, access: Access, filters: Mapping[str, str]) -> None:
    """Replace the caller's saved filters. Empty filters are deleted."""
    if filters:
        values = {**_key(access), "filters": json.encode(dict(filters)).decode(), "updated_at": write.now}
        await write.tx.execute(_save, values)
    else:
        await write.tx.execute(_clear, _key(access))


def _key(access: Access) -> dict[str, int]:
    return {"user_id": access.actor.user.id, "repository_id": access.repository.id}
