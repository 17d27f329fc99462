"""What a board shows, read as its visitor may see it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from workhook.identity.schemas import Actor
from workhook.storage import Reader
from workhook.work.access import Access
from workhook.work.columns import api as columns
from workhook.work.columns.schemas import Column
from workhook.work.tasks import column_tasks

CARDS_MAX = 1000  # of a column


class BoardColumn(msgspec.Struct, frozen=True):
    """A column and its cards, in their order: tasks in the form of the API. `more`: it has more than are shown."""

    column: Column
    cards: Sequence[Any]
    more: bool


async def read_board(reader: Reader, actor: Actor, access: Access) -> list[BoardColumn]:
    """All columns of the project."""
    found = await columns.list_all(reader, access.repository.id)
    return list(await asyncio.gather(*(_read_column(reader, actor, column) for column in found)))


async def _read_column(reader: Reader, actor: Actor, column: Column) -> BoardColumn:
    read = await column_tasks.read_column(reader, actor, column.id, after=None, limit=CARDS_MAX + 1)
    cards = await column_tasks.to_responses(reader, read, read.rows[:CARDS_MAX])
    return BoardColumn(column, cards, more=len(read.rows) > CARDS_MAX or read.cut)
