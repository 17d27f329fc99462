"""The files of all projects that the caller sees. Clients do not see private ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from workhook.identity.schemas import Actor
from workhook.identity.tables import projects
from workhook.storage import Reader, Row
from workhook.storage.statements import PerDialect
from workhook.work.board.tasks.schemas import tasks
from workhook.work.files.actions import file_in, files_with_people
from workhook.work.files.schemas import File, FileProject, files, folders
from workhook.work.history.across import walks
from workhook.work.history.across.invoices import made_by
from workhook.work.history.across.places import (
    ProjectChoice,
    choice_of,
    place_columns,
    read_place,
    username_key,
    visible_projects,
)
from workhook.work.history.across.schemas import AllFilesQuery
from workhook.work.history.across.walks import AcrossPage, Condition, Walk
from workhook.work.kernel.pages import length, per_dialect
from workhook.work.kernel.schemas import if_set

_KEY = ("id",)
_of_task = sa.select(tasks.c.repository_id).where(tasks.c.id == sa.bindparam("task_id")).scalar_subquery()
_of_folder = sa.select(folders.c.repository_id).where(folders.c.id == sa.bindparam("folder")).scalar_subquery()


def _seen(row: sa.FromClause) -> Condition:
    return sa.and_(row.c.deleted_at.is_(None), sa.or_(row.c.insider == 1, row.c.private.is_(sa.false())))


@lru_cache(maxsize=128)
def _statement(choice: ProjectChoice, names: frozenset[str]) -> PerDialect:
    """`names`: those of the parameters `folder`, `task_id`, `user` and `after_id` that are given."""
    narrow: list[Callable[[sa.FromClause], Condition]] = []
    if "folder" in names:
        narrow.append(lambda row: row.c.folder_id == sa.bindparam("folder"))
    if "task_id" in names:
        narrow.append(lambda row: row.c.task_id == sa.bindparam("task_id"))
    if "after_id" in names:
        behind = walks.behind(_KEY)
        narrow.append(lambda row: behind({"id": row.c.id}))
    by_user = "user" in names
    walk = Walk(
        files,
        lambda row: {"id": row.c.id},
        narrow=narrow,
        asked=("deleted_at", "private", "user_id"),
        fits=[_seen, made_by] if by_user else [_seen],
        filtered=by_user,
    )

    def make(dialect: str) -> sa.Select[Any]:
        places = {"folder": _of_folder, "task_id": _of_task}
        narrower = [projects.c.repository_id == place for name, place in places.items() if name in names]
        page = walks.page_of(walks.looked_at(walk, visible_projects(choice, *narrower), dialect), _KEY)
        sized = walks.sized(walks.size_of(page, files, length(files.c.title)), _KEY)
        return (
            files_with_people.join(sized, sized.c.id == files.c.id)
            .join(projects, projects.c.repository_id == sized.c.repository_id)
            .add_columns(*place_columns, *walks.page_columns(sized, _KEY))
            .order_by(sized.c.id)
        )

    return per_dialect(make)


async def list_all_files(
    reader: Reader, actor: Actor, query: AllFilesQuery, *, after: Sequence[object] | None
) -> AcrossPage[File]:
    """By id, one more than the page shows; `after` is the key behind which to start. They have no links yet."""
    choice, params = choice_of(actor, query)
    given: dict[str, object] = walks.after_params(_KEY, after)
    if (folder := if_set(query.folder)) is not None:
        given["folder"] = folder
    if (task_id := if_set(query.task_id)) is not None:
        given["task_id"] = task_id
    if (user := if_set(query.user)) is not None:
        given["user"] = username_key(user, actor)
    params |= {**given, "limit": query.limit + 1, "most": walks.LOOKS_AT_MOST}

    def make(row: Row) -> File:
        return file_in(row, FileProject(*read_place(row, actor)))

    rows = await reader.fetch_all(_statement(choice, frozenset(given)), params)
    return walks.read_page(rows, _KEY, make)
