"""Comments on tasks and files, and replies, across all projects that the caller can see, in order of creation.

Comments on deleted tasks and files are omitted. Clients see neither private comments nor comments on anything private.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

import sqlalchemy as sa
from msgspec import Meta, UnsetType

from workhook.http.lists import Rows
from workhook.identity.schemas import Actor
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row
from workhook.storage.statements import PerDialect
from workhook.work.board.tasks.schemas import CursorInteger, tasks
from workhook.work.discussion.schemas import CommentedFile, CommentedTask, file_comments
from workhook.work.files.schemas import files
from workhook.work.history.all_projects.schemas import AllCommentsQuery, AnyComment, CommentKind
from workhook.work.history.search.scopes import SCOPES, SearchScope
from workhook.work.kernel import lists
from workhook.work.kernel.lists import Condition, Order, Scan, created_by
from workhook.work.kernel.pages import length
from workhook.work.kernel.people import membership_of, person_columns, person_of_row
from workhook.work.kernel.schemas import RecordPlace
from workhook.work.kernel.scopes import (
    ProjectRef,
    Scope,
    Source,
    place_columns,
    source_across_projects,
    visible_projects,
)

_KEY = ("created_at", "kind", "id")
KINDS: Sequence[CommentKind] = ("task_comment", "file_comment", "reply")
_CURSOR = tuple[CursorInteger, Annotated[int, Meta(ge=0, lt=len(KINDS))], CursorInteger]
_authors = accounts.alias("authors")
_SOURCES: Mapping[CommentKind, SearchScope] = {
    "task_comment": SCOPES["task_comment"],
    "file_comment": SCOPES["file_comment"],
    "reply": SCOPES["file_comment_reply"],
}
_PARENTS: Mapping[CommentKind, tuple[sa.FromClause, str]] = {
    "task_comment": (tasks, "task_id"),
    "file_comment": (files, "file_id"),
    "reply": (file_comments.join(files, files.c.id == file_comments.c.file_id), "file_comment_id"),
}
"""The parent of a comment or reply, and the column that refers to it."""


def _kind(kind: CommentKind) -> sa.ColumnElement[int]:
    return sa.literal_column(str(KINDS.index(kind)), sa.BigInteger)


def _order(kind: CommentKind) -> Order:
    return Order(
        lambda row: {"created_at": row.c.created_at, "kind": _kind(kind), "id": row.c.id}, _CURSOR, constant=["kind"]
    )


def _walk(kind: CommentKind, names: frozenset[str], *, continues: bool) -> Scan:
    source, order = _SOURCES[kind], _order(kind)
    above, column = _PARENTS[kind]

    def lives(row: sa.FromClause) -> Condition:
        """Return the condition under which the caller sees the row's parent.

        Looks it up by the row's key, because a join could degrade into a cross join.
        """
        private = [row.c.private, *(each for each in source.private if each.table is not source.table)]
        live = (
            sa.select(source.owner.c.id)
            .select_from(above)
            .where(
                (file_comments if kind == "reply" else source.owner).c.id == row.c[column],
                source.owner.c.deleted_at.is_(None),
                sa.or_(row.c.insider == 1, sa.and_(*(each.is_(sa.false()) for each in private))),
            )
        )
        return live.correlate(row).scalar_subquery().is_not(None)

    by_user = [created_by] if "user" in names else []
    return Scan(
        source.table,
        order,
        narrow=[lambda row: order.after_cursor(order.key(row))] if continues else [],
        reads=(column, "private", "user_id"),
        fits=[lives, *by_user],
        filtered=bool(by_user),
    )


def _select_full_rows(kind: CommentKind, sized: sa.CTE) -> sa.Select[Any]:
    source = _SOURCES[kind]
    table = source.table
    return sa.select(
        table.c.id.label("comment_id"),
        source.text.label("text"),
        table.c.private.label("private"),
        source.owner.c.id.label("owner_id"),
        source.owner.c.title.label("owner_title"),
        source.comment_id.label("file_comment_id"),
        table.c.created_at.label("created_at"),
        table.c.updated_at.label("updated_at"),
        *person_columns(membership_of(table.c.repository_id, _authors), _authors),
        *place_columns,
        *lists.page_columns(sized, _KEY),
    ).select_from(
        source.joined.join(sized, sa.and_(sized.c.kind == _kind(kind), sized.c.id == table.c.id))
        .join(_authors, _authors.c.id == table.c.user_id)
        .join(projects, projects.c.repository_id == sized.c.repository_id)
    )


@lru_cache(maxsize=64)
def _statement(scope: Scope, names: frozenset[str], continues: bool) -> PerDialect:
    def make(dialect: str) -> sa.Select[Any]:
        order, visible = _order(KINDS[0]), visible_projects(scope)
        each = [lists.select_scanned(_walk(kind, names, continues=continues), visible, dialect) for kind in KINDS]
        page = lists.page_of(sa.union_all(*each), order, _KEY)
        weighed = (
            lists.size_of(page, each.table, length(each.text)).where(page.c.kind == _kind(kind))
            for kind, each in _SOURCES.items()
        )
        sized = lists.cut_to_size(sa.union_all(*weighed), order, _KEY)
        found = sa.union_all(*(_select_full_rows(kind, sized) for kind in KINDS)).subquery("found")
        return sa.select(found).order_by(*(found.c[f"page_{name}"] for name in _KEY))

    return PerDialect.made_by(make)


async def list_comments(reader: Reader, actor: Actor, query: AllCommentsQuery) -> Rows[AnyComment]:
    """Return a page plus one further row. Files have no links yet."""
    after = lists.cursor_of(query, _order(KINDS[0]))
    source, limit = source_across_projects(actor, query), query.limit + 1
    filters = {} if isinstance(query.user, UnsetType) else {"user": source.key_of(query.user)}
    most = lists.MAX_SCANNED_ROWS // len(KINDS)
    params = {**source.params, **filters, "limit": limit, "most": most, **lists.after_params(_KEY, after)}
    statement = _statement(source.scope, frozenset(filters), after is not None)
    return lists.read_page(await reader.fetch_all(statement, params), _KEY, source, _comment_of, limit)


def _comment_of(row: Row, place: ProjectRef, _: Source) -> AnyComment:
    kind = KINDS[row["page_kind"]]
    owner_id, title = row["owner_id"], row["owner_title"]
    on_task = kind == "task_comment"
    return AnyComment(
        kind=kind,
        id=row["comment_id"],
        text=row["text"],
        private=bool(row["private"]),
        user=person_of_row(row),
        task=CommentedTask(owner_id, title) if on_task else None,
        file=None if on_task else CommentedFile(owner_id, title, ""),
        file_comment_id=row["file_comment_id"],
        project=RecordPlace(place.id, place.title),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
