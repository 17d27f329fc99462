"""The tasks of all projects that the caller sees, with the filters and in the orders of a project's list."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from msgspec import UnsetType

from workhook.core.money import DEFAULT_CURRENCY
from workhook.identity.schemas import Actor
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row
from workhook.storage.record_rows import selected
from workhook.storage.statements import PerDialect
from workhook.work.board.tasks import listing
from workhook.work.board.tasks.assignees import is_on_team, without_terms
from workhook.work.board.tasks.matching import task_matches
from workhook.work.board.tasks.schemas import (
    Task,
    TaskProjectShape,
    people,
    people_assigned,
    position_columns,
    related_columns,
    task_of,
    tasks,
    weight,
    with_column,
)
from workhook.work.history.across import walks
from workhook.work.history.across.places import (
    CALLER,
    ProjectChoice,
    choice_of,
    place_columns,
    read_place,
    username_key,
    visible_projects,
)
from workhook.work.history.across.schemas import AllTasksQuery
from workhook.work.history.across.walks import AcrossPage, Walk
from workhook.work.kernel.pages import per_dialect

_KEY = ("sort_key", "id")
_parent = tasks.alias("parent")
_of_parent = sa.select(_parent.c.repository_id).where(_parent.c.id == sa.bindparam("parent_id")).scalar_subquery()


def _assignee_fits(some: sa.FromClause) -> sa.ColumnElement[bool]:
    """A client finds nothing by the name of a person whom it does not see."""
    named = (
        sa.select(accounts.c.id)
        .join_from(accounts, projects, projects.c.repository_id == some.c.repository_id)
        .where(accounts.c.login_key == sa.bindparam("assignee"), sa.or_(accounts.c.id == CALLER, is_on_team(accounts)))
        .correlate(some)
        .scalar_subquery()
    )
    seen = sa.case((some.c.insider == 1, sa.true()), else_=named.is_not(None))
    return sa.and_(listing.is_assigned(some).is_not(None), seen)


def _walk(filters: frozenset[str], sort: str, *, continues: bool, dialect: str) -> Walk:
    falling = sort.startswith("-")
    # By id alone where that is the order: SQLite finds no index for one that names it twice.
    twice = ("sort_key",) if sort == "id" else ()
    behind = walks.behind(("id",) if twice else _KEY, falling=falling)

    def key(row: sa.FromClause) -> dict[str, sa.ColumnElement[Any]]:
        return {"sort_key": listing.sort_key(sort, row), "id": row.c.id}

    def fits(name: str) -> Any:
        if name == "assignee":
            return _assignee_fits
        return lambda some: listing.conditions_of(some, dialect)[name]()

    narrow: list[Any] = [lambda row: row.c.deleted_at.is_(None)]
    if "parent_id" in filters:
        narrow.append(lambda row: row.c.parent_id == sa.bindparam("parent_id"))
    if continues:
        narrow.append(lambda row: behind(key(row)))
    return Walk(
        tasks,
        key,
        falling=falling,
        narrow=narrow,
        asked=sorted({name for each in filters for name in listing.ASKED.get(each, ())}),
        fits=[fits(name) for name in sorted(filters - {"parent_id"})],
        filtered=bool(filters),
        repeated=twice,
    )


@lru_cache(maxsize=512)
def _statement(choice: ProjectChoice, filters: frozenset[str], sort: str, continues: bool) -> PerDialect:
    def make(dialect: str) -> sa.Select[Any]:
        narrower = [projects.c.repository_id == _of_parent] if "parent_id" in filters else []
        visible, falling = visible_projects(choice, *narrower), sort.startswith("-")
        walk = _walk(filters - {"q"}, sort, continues=continues, dialect=dialect)
        if "q" in filters:
            judged = walks.found_by_words(walk, visible, task_matches())
        else:
            judged = walks.looked_at(walk, visible, dialect)
        page = walks.page_of(judged, _KEY, falling=falling)
        sized = walks.sized(walks.size_of(page, tasks, weight), _KEY, falling=falling)
        # A client sees the team and itself on a task.
        seen = people_assigned.where(sa.or_(sized.c.insider == 1, people.c.id == CALLER, is_on_team(people)))
        shown = seen.correlate(tasks, sized, projects).scalar_subquery().label("task_assignees")
        return (
            sa.select(
                *selected(Task, tasks, "task_"),
                shown,
                *related_columns,
                *position_columns,
                *place_columns,
                *walks.page_columns(sized, _KEY),
            )
            .select_from(with_column.join(sized, sized.c.id == tasks.c.id))
            .join(projects, projects.c.repository_id == sized.c.repository_id)
            .order_by(*walks.in_order([sized.c[name] for name in _KEY], falling))
        )

    return per_dialect(make)


async def list_all_tasks(
    reader: Reader,
    actor: Actor,
    query: AllTasksQuery,
    *,
    after: Sequence[object] | None,
    archived: bool = True,
) -> AcrossPage[Task]:
    """By id or in the order of `query.sort`, one more than the page shows; `after` is the key behind which to start.
    What belongs to projects that the caller does not see is left out, and without `archived` what is in the archive."""
    choice, params = choice_of(actor, query, archived=archived)
    filters = listing.params_of(query)
    if not isinstance(query.assignee, UnsetType):
        filters["assignee"] = username_key(query.assignee, actor)
    sort = "id" if isinstance(query.sort, UnsetType) else query.sort
    params |= {**filters, "limit": query.limit + 1, "most": walks.LOOKS_AT_MOST, **walks.after_params(_KEY, after)}

    def make(row: Row) -> Task:
        task = task_of(row, TaskProjectShape.of(*read_place(row, actor), row["place_currency"] or DEFAULT_CURRENCY))
        return task if row["page_insider"] else without_terms(task)

    statement = _statement(choice, frozenset(filters), sort, after is not None)
    return walks.read_page(await reader.fetch_all(statement, params), _KEY, make)
