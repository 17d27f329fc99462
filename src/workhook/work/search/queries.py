"""One statement that searches everything that a caller sees.

What is private is not found by clients, nor are comments on private files and replies to private comments; what belongs
to something that was deleted is found by nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple

import sqlalchemy as sa
from msgspec import Meta

from workhook.identity.queries import by_membership
from workhook.identity.schemas import Actor
from workhook.identity.tables import collaborators, memberships, projects
from workhook.identity.tokens.reach import reach_params, within_reach
from workhook.storage import Reader, Row
from workhook.storage.metadata import big
from workhook.work.clients.tables import clients
from workhook.work.comments.tables import file_comment_replies, file_comments, task_comments
from workhook.work.files.tables import files
from workhook.work.search.match import matches, task_matches
from workhook.work.search.schemas import KINDS, Found, FoundIn, Kind
from workhook.work.tasks.tables import tasks

TEXT_CHARS = 4000
"""How much of a text is read to make an excerpt of."""

_Integer = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # what both databases take for one


class Key(NamedTuple):
    """What results are ordered by, from high to low; `kind` is its place in `KINDS`."""

    created_at: _Integer
    kind: _Integer
    number: _Integer
    place_id: str


_caller = big("user_id")
_owners = sa.select(_caller).union_all(sa.select(memberships.c.organization_id).where(memberships.c.user_id == _caller))
_given = (
    sa.select(collaborators.c.repository_id)
    .where(collaborators.c.user_id == _caller)
    .union_all(sa.select(clients.c.repository_id).where(clients.c.user_id == _caller))
)
# As `identity.queries` finds a role; whoever has none is a client, if anything.
_insider = sa.or_(
    projects.c.account_id == _caller,
    sa.exists().where(
        memberships.c.organization_id == projects.c.account_id,
        memberships.c.user_id == _caller,
        by_membership,
    ),
    sa.exists().where(collaborators.c.repository_id == projects.c.repository_id, collaborators.c.user_id == _caller),
)
_client = sa.exists().where(clients.c.repository_id == projects.c.repository_id, clients.c.user_id == _caller)
_seen = (
    sa.select(
        projects.c.repository_id,
        projects.c.id.label("project_id"),
        projects.c.title.label("project_title"),
        sa.case((_insider, 1), else_=0).label("insider"),
    )
    # The first is for the sake of indexes, the second decides.
    .where(sa.or_(projects.c.account_id.in_(_owners), projects.c.repository_id.in_(_given)))
    .where(projects.c.deleted_at.is_(None), sa.or_(_insider, _client))
    .where(within_reach(projects.c.account_id, projects.c.repository_id))
    .cte("seen")
)

_NO_NUMBER: sa.ColumnElement[int] = sa.literal_column("0", sa.BigInteger)
_NO_COMMENT: sa.ColumnElement[int] = sa.cast(sa.null(), sa.BigInteger)
_NO_TEXT: sa.ColumnElement[str] = sa.cast(sa.null(), sa.Text)


@dataclass(frozen=True)
class Place:
    """Where a kind is found: `table` holds it, `owner` is it or the task or file that it is about, `joined` is all that
    is read. None of `private` may hold for a client to see it."""

    table: sa.Table
    owner: sa.Table
    joined: sa.FromClause
    matching: sa.ColumnElement[bool]
    private: tuple[sa.Column[Any], ...] = ()
    text: sa.ColumnElement[Any] = _NO_TEXT
    comment_id: sa.ColumnElement[Any] = _NO_COMMENT

    @property
    def number(self) -> sa.ColumnElement[int]:
        return _NO_NUMBER if self.table is self.owner else self.table.c.id


_of_task = task_comments.join(tasks, tasks.c.id == task_comments.c.task_id)
_of_file = file_comments.join(files, files.c.id == file_comments.c.file_id)
_of_comment = file_comment_replies.join(_of_file, file_comments.c.id == file_comment_replies.c.file_comment_id)

PLACES: Mapping[Kind, Place] = {
    "task": Place(tasks, tasks, tasks, task_matches(), text=tasks.c.description),
    "task_comment": Place(
        task_comments,
        tasks,
        _of_task,
        matches(task_comments.c.id, task_comments.c.text),
        private=(task_comments.c.private,),
        text=task_comments.c.text,
    ),
    "file": Place(files, files, files, matches(files.c.id, files.c.title), private=(files.c.private,)),
    "file_comment": Place(
        file_comments,
        files,
        _of_file,
        matches(file_comments.c.id, file_comments.c.text),
        private=(files.c.private, file_comments.c.private),
        text=file_comments.c.text,
    ),
    "file_comment_reply": Place(
        file_comment_replies,
        files,
        _of_comment,
        matches(file_comment_replies.c.id, file_comment_replies.c.plain_body),
        private=(files.c.private, file_comments.c.private, file_comment_replies.c.private),
        text=file_comment_replies.c.plain_body,
        comment_id=file_comment_replies.c.file_comment_id,
    ),
}


def _of_kind(kind: Kind, *, in_project: bool, further: bool) -> sa.Select[Any]:
    """The newest of a kind, no more than a page shows."""
    place = PLACES[kind]
    found = (
        sa.select(
            _rank(kind).label("kind"),
            place.number.label("number"),
            place.owner.c.id.label("place_id"),
            place.owner.c.title,
            sa.func.substr(place.text, 1, sa.literal_column(str(TEXT_CHARS))).label("text"),
            place.comment_id.label("file_comment_id"),
            place.table.c.created_at,
            place.table.c.updated_at,
            _seen.c.project_id,
            _seen.c.project_title,
        )
        .select_from(place.joined.join(_seen, _seen.c.repository_id == place.table.c.repository_id))
        .where(place.owner.c.deleted_at.is_(None), place.matching)
        .order_by(place.table.c.created_at.desc(), place.table.c.id.desc())
        .limit(big("limit"))
    )
    if place.private:
        open_to_all = sa.and_(*(each.is_(sa.false()) for each in place.private))
        found = found.where(sa.or_(_seen.c.insider == 1, open_to_all))
    if in_project:
        found = found.where(_seen.c.project_id == sa.bindparam("project_id", type_=sa.Text))
    if further:
        key = sa.tuple_(place.table.c.created_at, _rank(kind), place.number, place.owner.c.id)
        found = found.where(key < sa.tuple_(*_AFTER))
    return found


def _rank(kind: Kind) -> sa.ColumnElement[int]:
    return sa.literal_column(str(KINDS.index(kind)), sa.BigInteger)


_AFTER: tuple[sa.BindParameter[Any], ...] = (
    big("created_at"),
    big("kind"),
    big("number"),
    sa.bindparam("place_id", type_=sa.Text),
)


@cache
def _statement(kinds: tuple[Kind, ...], *, in_project: bool, further: bool) -> sa.Select[Any]:
    """One for each combination, since a statement is compiled once. `further`: it goes on behind a key."""
    each = [_of_kind(kind, in_project=in_project, further=further).subquery() for kind in kinds]
    found = sa.union_all(*(sa.select(one) for one in each)).subquery("found")
    return sa.select(found).order_by(*(found.c[name].desc() for name in Key._fields)).limit(big("limit"))


async def search(
    reader: Reader,
    actor: Actor,
    words: str,
    *,
    kinds: tuple[Kind, ...],
    project_id: str | None,
    after: Key | None,
    limit: int,
) -> list[Found]:
    """What the caller sees and has all of `words` (`match.words_of`), the newest first, from behind `after`.

    Raises `storage.slow.TooSlow`.
    """
    params: dict[str, object] = {"user_id": actor.user.id, "q": words, "project_id": project_id, "limit": limit}
    params |= reach_params(actor)
    if after is not None:
        params |= after._asdict()
    statement = _statement(kinds, in_project=project_id is not None, further=after is not None)
    return [_found_of(row) for row in await reader.fetch_slow(statement, params)]


def _found_of(row: Row) -> Found:
    return Found(
        kind=KINDS[row["kind"]],
        number=row["number"],
        place_id=row["place_id"],
        title=row["title"],
        text=row["text"],
        project=FoundIn(row["project_id"], row["project_title"]),
        file_comment_id=row["file_comment_id"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def key_of(found: Found) -> Key:
    """What the order of results goes by."""
    return Key(found.created_at, KINDS.index(found.kind), found.number, found.place_id)
