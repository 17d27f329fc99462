"""`/search`: full-text search over everything the caller can see.

A search finds the newest matching records of each kind, up to a limit, and counts only those the caller can see. It
first scans the newest rows, which is fast for common words, and falls back to the full-text index if these contain too
few matches. The texts for the excerpts are read last, only for the page shown.

Clients cannot find private records, comments on private files, replies to private comments, or draft invoices. Records
of deleted tasks, files and projects are never found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import to_millis_text
from workhook.core.errors import NotFound
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import PER_PAGE_DEFAULT, ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.queries import find_repository
from workhook.identity.schemas import Actor
from workhook.identity.tables import collaborators, memberships, projects
from workhook.identity.tokens.lookup import reach_params, within_reach
from workhook.storage import Reader, Row
from workhook.storage.dialects import any_of, json_member
from workhook.storage.metadata import bigint_param
from workhook.storage.statements import PerDialect
from workhook.work.board.tasks.matching import (
    FOUND_NUMBER,
    QUERY_MAX_CHARS,
    fold_letter,
    fold_text,
    has_words,
    index_of,
    matches,
    matches_in_range,
    number_of,
    numbers,
    words_of,
)
from workhook.work.board.tasks.schemas import tasks
from workhook.work.discussion.schemas import file_comment_replies, file_comments, task_comments
from workhook.work.files.schemas import files
from workhook.work.kernel.access import find_access, is_client, is_insider
from workhook.work.kernel.tables import clients
from workhook.work.money.credit_notes.schemas import credit_notes
from workhook.work.money.invoices.schemas import invoices, is_issued, name_of

Kind = Literal["task", "task_comment", "file", "file_comment", "file_comment_reply", "invoice", "credit_note"]
KINDS: tuple[Kind, ...] = get_args(Kind)

DRAFT = name_of(None)
"""The title of an invoice without a number."""

EXCERPT_CHARS = 200
_BEFORE = 60  # characters shown before the matching word
_SPACES = re.compile(r"\s+")
_MORE = "…"


class SearchQuery(ListQuery, kw_only=True):
    """A search. Every result contains all the words of `q`."""

    q: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=QUERY_MAX_CHARS,
            description="Words to search for. Results contain all of them; the last one may be a prefix. In "
            "titles, names, and invoice numbers, words of three or more characters also match inside "
            "other words. `#12` finds tasks with that number, `owner/name#12` in one project. Case "
            "and accents on Latin letters are ignored, and `ß` equals `ss`. There are no operators.",
        ),
    ]
    project_id: Annotated[str, Meta(description="Only in this project.")] | UnsetType = UNSET
    type: Annotated[Kind, Meta(description="Only this kind.")] | UnsetType = UNSET

    @property
    def limit(self) -> int:
        """Return the page size. Search results are always paginated."""
        return PER_PAGE_DEFAULT if isinstance(self.per_page, UnsetType) else self.per_page

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return KINDS if isinstance(self.type, UnsetType) else (self.type,)


class SearchResultParent(msgspec.Struct, frozen=True):
    """The project, task, file or invoice that contains a result."""

    id: str
    title: str


class SearchResult(msgspec.Struct):
    """A search result. `id` is an integer for comments and replies.

    The `title` of a comment is that of its task or file, which is also in `task` or `file`. A reply also has the
    `file_comment_id` of the comment it answers. The `title` of an invoice or credit note is its number, and the
    `excerpt` of an invoice is the name of the client who pays.
    """

    type: Kind
    id: str | int
    number: Annotated[
        int | None,
        Meta(description="Number of the task, or of a comment's task; null for files."),
    ]
    title: str
    excerpt: Annotated[str | None, Meta(description="Plain text around the matches; null without text.")]
    project: SearchResultParent
    task: SearchResultParent | None
    file: SearchResultParent | None
    invoice: SearchResultParent | None
    file_comment_id: int | None
    created_at: str
    updated_at: str


class SearchAnswer(msgspec.Struct):
    """A page of search results. `incomplete_results` is true if older matches exist that are not listed."""

    results: list[SearchResult]
    incomplete_results: bool = False
    success: bool = True


def search_result(row: Row, words: str) -> SearchResult:
    kind = KINDS[row["kind"]]
    invoice, title = None, row["title"] or DRAFT
    if row["invoice_id"] is not None:
        invoice = SearchResultParent(row["invoice_id"], row["invoice_number"] or DRAFT)
    place, in_task = SearchResultParent(row["place_id"], title), kind in ("task", "task_comment")
    return SearchResult(
        type=kind,
        id=row["number"] or row["place_id"],
        number=row["task_number"],
        title=title,
        excerpt=excerpt(row["text"], words),
        project=SearchResultParent(row["project_id"], row["project_title"]),
        task=place if in_task else None,
        file=None if in_task or invoice else place,
        invoice=invoice,
        file_comment_id=row["file_comment_id"],
        created_at=to_millis_text(row["created_at"]),
        updated_at=to_millis_text(row["updated_at"]),
    )


def excerpt(text: str | None, words: str) -> str | None:
    """Return at most `EXCERPT_CHARS` characters on one line, with `…` for omissions, or None if there is no text.

    The excerpt starts shortly before the first occurrence of any of `words`, or else at the beginning.
    """
    line = _SPACES.sub(" ", text or "").strip()
    if not line:
        return None
    start = _start(line, words)
    if start:
        start = line.find(" ", start) + 1 or start  # start with a whole word
    room = EXCERPT_CHARS - (len(_MORE) if start else 0)
    part = line[start : start + room]
    if start + room < len(line):
        part = part[: room - len(_MORE)].rstrip() + _MORE
    return _MORE + part if start else part


def _start(line: str, words: str) -> int:
    letters, places = fold(line)
    found = [at for word in words.split() if (at := letters.find(fold_text(word))) >= 0]
    first = places[min(found)] if found else 0
    return first - _BEFORE if first > _BEFORE else 0


def fold(text: str) -> tuple[str, list[int]]:
    """Return the letters of a text, normalized for comparison, and the place of each in the text.

    The last place is the length of the text.
    """
    found = [fold_letter(character) for character in text]
    places = [at for at, letters in enumerate(found) for _ in letters]
    return "".join(found), [*places, len(text)]


# --- the tables to search, and the conditions for access to their rows ------------------------------------------------

_caller = bigint_param("user_id")
_owners = sa.select(_caller).union_all(sa.select(memberships.c.organization_id).where(memberships.c.user_id == _caller))
_given = (
    sa.select(collaborators.c.repository_id)
    .where(collaborators.c.user_id == _caller)
    .union_all(sa.select(clients.c.repository_id).where(clients.c.user_id == _caller))
)
_insider = is_insider(_caller)
visible_projects_cte = (
    sa.select(
        projects.c.repository_id, projects.c.id.label("project_id"), sa.case((_insider, 1), else_=0).label("insider")
    )
    # This condition makes indexes usable; the next one decides.
    .where(sa.or_(projects.c.account_id.in_(_owners), projects.c.repository_id.in_(_given)))
    .where(projects.c.deleted_at.is_(None), sa.or_(_insider, is_client))
    .where(within_reach(projects.c.account_id, projects.c.repository_id))
    .cte("seen")
)
"""All projects the caller can see. For very many rows, SQLite reads fewer than with `visible_projects`."""
_TITLES = ("title", "invoice_number", "credit_note_number")
_NO_NUMBER: sa.ColumnElement[int] = sa.literal_column("0", sa.BigInteger)
_NO_COMMENT: sa.ColumnElement[int] = sa.cast(sa.null(), sa.BigInteger)
_NO_TEXT: sa.ColumnElement[str] = sa.cast(sa.null(), sa.Text)


@dataclass(frozen=True)
class SearchScope:
    """The scope of a search for one kind of record.

    `table` contains the records, `owner` is the table of their task or file (or `table` itself), and `joined` is
    everything that is read. A client sees a record if no flag in `private` is true and `shown` is true. `invoice_id` is
    the invoice that the record is or belongs to.
    """

    table: sa.Table
    owner: sa.Table
    joined: sa.FromClause
    private: tuple[sa.Column[Any], ...] = ()
    shown: sa.ColumnElement[bool] = field(default_factory=sa.true)
    text: sa.ColumnElement[Any] = _NO_TEXT
    comment_id: sa.ColumnElement[Any] = _NO_COMMENT
    invoice_id: sa.ColumnElement[Any] = _NO_TEXT
    invoice_number: sa.ColumnElement[Any] = _NO_TEXT

    @property
    def matching(self) -> matches:
        return matches(self.table)

    @property
    def title(self) -> sa.ColumnElement[Any]:
        return next(self.owner.c[name] for name in _TITLES if name in self.owner.c)

    @property
    def created_at(self) -> sa.ColumnElement[int]:
        return self.table.c.issued if self.table is credit_notes else self.table.c.created_at

    @property
    def updated_at(self) -> sa.ColumnElement[int]:
        return self.table.c.issued if self.table is credit_notes else self.table.c.updated_at

    def visible_condition(self) -> sa.ColumnElement[bool]:
        """Return the condition under which the caller sees a row joined with its project. Meant for few rows."""
        project = sa.and_(
            projects.c.deleted_at.is_(None), within_reach(projects.c.account_id, projects.c.repository_id)
        )
        return sa.and_(project, self._lives, sa.or_(_insider, sa.and_(is_client, self._open)))

    def visible_in_cte(self) -> sa.ColumnElement[bool]:
        """Return the condition for rows the caller sees, joined with `visible_projects_cte`. For very many rows."""
        lives = self._lives
        if "deleted_at" in self.owner.c:
            # An expression that matches no partial index. Otherwise PostgreSQL would read all of such an index in
            # addition to the full-text index.
            lives = sa.func.coalesce(
                self.owner.c.deleted_at, sa.literal_column("0", sa.BigInteger)
            ) == sa.literal_column("0")
        return sa.and_(lives, sa.or_(visible_projects_cte.c.insider == 1, self._open))

    @property
    def _lives(self) -> sa.ColumnElement[bool]:
        return self.owner.c.deleted_at.is_(None) if "deleted_at" in self.owner.c else sa.true()

    @property
    def _open(self) -> sa.ColumnElement[bool]:
        return sa.and_(self.shown, *(each.is_(sa.false()) for each in self.private))

    @property
    def number(self) -> sa.ColumnElement[int]:
        return _NO_NUMBER if self.table is self.owner else self.table.c.id


_of_task = task_comments.join(tasks, tasks.c.id == task_comments.c.task_id)
_of_file = file_comments.join(files, files.c.id == file_comments.c.file_id)
_credited = credit_notes.join(invoices, invoices.c.id == credit_notes.c.invoice_id)
_of_comment = file_comment_replies.join(_of_file, file_comments.c.id == file_comment_replies.c.file_comment_id)

SCOPES: Mapping[Kind, SearchScope] = {
    "task": SearchScope(tasks, tasks, tasks, text=tasks.c.description),
    "task_comment": SearchScope(
        task_comments,
        tasks,
        _of_task,
        private=(task_comments.c.private,),
        text=task_comments.c.text,
    ),
    "file": SearchScope(files, files, files, private=(files.c.private,)),
    "file_comment": SearchScope(
        file_comments,
        files,
        _of_file,
        private=(files.c.private, file_comments.c.private),
        text=file_comments.c.text,
    ),
    "file_comment_reply": SearchScope(
        file_comment_replies,
        files,
        _of_comment,
        private=(files.c.private, file_comments.c.private, file_comment_replies.c.private),
        text=file_comment_replies.c.plain_body,
        comment_id=file_comment_replies.c.file_comment_id,
    ),
    "invoice": SearchScope(
        invoices,
        invoices,
        invoices,
        shown=is_issued,
        text=sa.func.coalesce(json_member(invoices.c.buyer, "name"), invoices.c.bill_to),
        invoice_id=invoices.c.id,
        invoice_number=invoices.c.invoice_number,
    ),
    "credit_note": SearchScope(
        credit_notes,
        credit_notes,
        _credited,
        text=credit_notes.c.reason,
        invoice_id=invoices.c.id,
        invoice_number=invoices.c.invoice_number,
    ),
}


# --- the search -------------------------------------------------------------------------------------------------------

routes = Routes(WORK_API, "Search")

TEXT_CHARS = 4000
"""The number of characters of a text read for its excerpt."""

_REFERENCE = re.compile(r"(?P<owner>[\w.-]{1,100})/(?P<name>[\w.-]{1,100})(?P<number>#\d{1,18})", re.ASCII)
"""A reference to a task as in commit messages."""


class SearchLimits(NamedTuple):
    """Limits for each kind of record."""

    candidates: int  # the number of matches returned, newest first
    # PostgreSQL: search the newest `rows` first, up to this many `characters`.
    rows: int
    characters: int
    # SQLite: read the newest `matches` of the full-text index, or the newest rows of a single project, whose matches
    # may be older.
    matches: int
    rows_of_project: int


LIMITS = SearchLimits(candidates=50, rows=200, characters=30_000, matches=500, rows_of_project=1_000)

_IN_PROJECT: sa.BindParameter[str] = sa.bindparam("project_id", type_=sa.Text)
_named = projects.alias("named")
_REPOSITORY = sa.select(_named.c.repository_id).where(_named.c.id == _IN_PROJECT).scalar_subquery()
_Integer = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # the range of integers in both databases


class ResultKey(NamedTuple):
    """The sort key of results, in descending order. `kind` is an index into `KINDS`."""

    created_at: _Integer
    kind: _Integer
    number: _Integer
    place_id: str


def _candidates(kind: Kind, limits: SearchLimits) -> sa.Select[Any]:
    """Select the newest records by ID, because imported records keep their original times."""
    scope = SCOPES[kind]
    return sa.select(
        _rank(kind).label("kind"),
        scope.created_at.label("created_at"),
        scope.number.label("number"),
        scope.owner.c.id.label("place_id"),
    ).limit(_bound(limits.candidates + 1))


def _bound(rows: int) -> sa.ColumnElement[int]:
    """Return the limit as a literal, so that generic query plans take it into account."""
    return sa.literal_column(str(rows), sa.BigInteger)


def _newest(kind: Kind, limits: SearchLimits, *, in_project: bool, dialect: str) -> sa.Select[Any]:
    """Search the newest rows. If they contain too few matches, the caller continues with `_indexed`."""
    scope = SCOPES[kind]
    rows: sa.FromClause
    if dialect == "postgresql":
        rows = _newest_rows(scope, limits, in_project)
    else:
        rows = _newest_of_project(scope, limits) if in_project else _newest_matches(scope, limits)
    found = (
        _candidates(kind, limits)
        .select_from(
            scope.joined.join(rows, rows.c.id == scope.table.c.id).join(
                projects, projects.c.repository_id == scope.table.c.repository_id
            )
        )
        .where(scope.visible_condition())
        .order_by(rows.c.at.desc())
    )
    return found.where(projects.c.id == _IN_PROJECT) if in_project else found


def _newest_rows(scope: SearchScope, limits: SearchLimits, in_project: bool) -> sa.CTE:
    """Select matches among the newest rows on PostgreSQL, up to a total number of characters.

    The CTE is materialized so that each text is parsed once. Without statistics the planner expects a single row and
    would parse the texts again for every joined row.
    """
    searched = scope.matching.searched
    names = searched.columns
    rows = scope.table.alias("rows")
    newest = sa.select(rows.c.id, *(rows.c[name] for name in names)).limit(_bound(limits.rows))
    order = [rows.c.id.desc()]
    if in_project and scope.table is scope.owner:  # which has an index for this order
        # Forces the index with this order. With the primary key, all newer rows would be read.
        newest = newest.where(rows.c.repository_id.between(_REPOSITORY, _REPOSITORY))
        order = [rows.c.repository_id.desc(), *order]
    some = newest.order_by(*order).subquery("some")
    whole = sa.func.concat(*(some.c[name] for name in searched.words))  # `concat` ignores NULL
    read = sa.func.sum(sa.func.length(whole)).over(order_by=some.c.id.desc()).label("characters")
    texts = [some.c[name] for name in names]
    known = sa.select(some.c.id, some.c.id.label("at"), *texts, read).subquery("known")
    found = sa.select(known.c.id, known.c.at).where(
        known.c.characters <= _bound(limits.characters), matches(scope.table, known)
    )
    return found.cte(f"newest_{scope.table.name}").prefix_with("MATERIALIZED")


def _newest_of_project(scope: SearchScope, limits: SearchLimits) -> sa.Subquery:
    rows = scope.table.alias("rows")
    newest = (
        sa.select(rows.c.id, number_of(rows.c.id).label(FOUND_NUMBER))
        .where(rows.c.repository_id == _REPOSITORY)
        .order_by(rows.c.id.desc())
        .limit(_bound(limits.rows_of_project))
        .cte(f"newest_{scope.table.name}")
    )
    return (
        sa.select(newest.c.id, newest.c.id.label("at")).where(matches_in_range(newest, scope.table)).subquery("newest")
    )


def _newest_matches(scope: SearchScope, limits: SearchLimits) -> sa.Subquery:
    words = index_of(scope.table)
    newest = (
        sa.select(words.c.rowid.label("at"))
        .where(has_words(scope.table))
        .order_by(words.c.rowid.desc())
        .limit(_bound(limits.matches))
        .subquery("matching")
    )
    if not isinstance(scope.table.c.id.type, sa.Text):
        return sa.select(newest.c.at.label("id"), newest.c.at).subquery("newest")
    numbered = newest.join(numbers, numbers.c.number == newest.c.at)
    return sa.select(numbers.c.id, newest.c.at).select_from(numbered).subquery("newest")


def _indexed(kind: Kind, limits: SearchLimits, *, in_project: bool) -> sa.Select[Any]:
    """Search all rows with the full-text index."""
    scope = SCOPES[kind]
    row_id = scope.table.c.id
    # Sort by an expression without an index. PostgreSQL could otherwise walk the primary key and test every row for the
    # words.
    order = row_id.concat("") if isinstance(row_id.type, sa.Text) else row_id + sa.literal_column("0")
    found = (
        _candidates(kind, limits)
        .select_from(
            scope.joined.join(visible_projects_cte, visible_projects_cte.c.repository_id == scope.table.c.repository_id)
        )
        .where(scope.visible_in_cte(), scope.matching)
        .order_by(order.desc())
    )
    return found.where(visible_projects_cte.c.project_id == _IN_PROJECT) if in_project else found


def _rank(kind: Kind) -> sa.ColumnElement[int]:
    return sa.literal_column(str(KINDS.index(kind)), sa.BigInteger)


def _all_of(each: list[sa.Select[Any]]) -> sa.CompoundSelect[Any]:
    return sa.union_all(*(sa.select(one.subquery()) for one in each))


@cache
def _newest_of(kinds: tuple[Kind, ...], limits: SearchLimits, *, in_project: bool) -> PerDialect:
    return PerDialect.made_by(
        lambda dialect: _all_of([_newest(kind, limits, in_project=in_project, dialect=dialect) for kind in kinds])
    )


@cache
def _indexed_of(kinds: tuple[Kind, ...], limits: SearchLimits, *, in_project: bool) -> sa.CompoundSelect[Any]:
    return _all_of([_indexed(kind, limits, in_project=in_project) for kind in kinds])


def _page_rows(kind: Kind) -> sa.Select[Any]:
    """Select the columns shown on a page. Access is checked again because records may have changed meanwhile."""
    scope = SCOPES[kind]
    task_number = scope.owner.c.number if scope.owner is tasks else sa.cast(sa.null(), sa.BigInteger)
    return (
        sa.select(
            _rank(kind).label("kind"),
            scope.number.label("number"),
            scope.owner.c.id.label("place_id"),
            scope.title.label("title"),
            task_number.label("task_number"),
            sa.func.substr(scope.text, 1, sa.literal_column(str(TEXT_CHARS))).label("text"),
            scope.comment_id.label("file_comment_id"),
            scope.invoice_id.label("invoice_id"),
            scope.invoice_number.label("invoice_number"),
            scope.created_at.label("created_at"),
            scope.updated_at.label("updated_at"),
            projects.c.id.label("project_id"),
            projects.c.title.label("project_title"),
        )
        .select_from(scope.joined.join(projects, projects.c.repository_id == scope.table.c.repository_id))
        .where(any_of(scope.table.c.id, _ids(kind)), scope.visible_condition())
    )


def _ids(kind: Kind) -> str:
    return f"{kind}_ids"


@cache
def _page_rows_of(kinds: tuple[Kind, ...]) -> sa.CompoundSelect[Any]:
    return _all_of([_page_rows(kind) for kind in kinds])


@routes.get("/search", problems=(404,), etag=False)
async def search(call: Call, query: SearchQuery) -> Listed[SearchAnswer]:
    """Search tasks, files, comments, replies, invoices, and credit notes in every project the caller can see.

    Results are sorted newest first, 30 per page by default. Archived projects are included, but not the trash. Text
    without spaces between words, such as Chinese or Japanese, is matched only from the start of each run between spaces
    or punctuation marks. A search returns at most the newest 50 results of each kind. If `incomplete_results` is true,
    narrow the search with more words, `type`, or `project_id`. A search that takes too long fails with 503.
    """
    after = lists.after(query, ResultKey)
    actor = actor_of(call)
    project_id, words = await _narrowed(call.database, actor, query)
    params: dict[str, object] = {"user_id": actor.user.id, "q": words, "project_id": project_id, **reach_params(actor)}
    by_kind = await _find(call.database, query.kinds, params)
    keys = sorted((each for some in by_kind.values() for each in some[: LIMITS.candidates]), reverse=True)
    behind = [each for each in keys if after is None or each < after]
    page = behind[: query.limit]
    found = await _read(call.database, page, params)
    last_seen = page[-1] if len(behind) > query.limit else None
    rows, headers = lists.page(call, found, query, _key_of, last_seen=last_seen)
    incomplete = any(len(some) > LIMITS.candidates for some in by_kind.values())
    return Listed(SearchAnswer([search_result(row, words) for row in rows], incomplete_results=incomplete), headers)


async def _narrowed(reader: Reader, actor: Actor, query: SearchQuery) -> tuple[str | None, str]:
    """Return the project to search (None for all projects) and the words."""
    if isinstance(query.project_id, str):
        await find_access(reader, actor, query.project_id)  # 404 instead of an empty result
        return query.project_id, words_of(query.q)
    if reference := _REFERENCE.fullmatch(query.q.strip()):
        named = await find_repository(reader, reference["owner"], reference["name"], actor.user.id)
        try:
            if named is not None:
                await find_access(reader, actor, named.project_id)
                return named.project_id, words_of(reference["number"])
        except NotFound:  # treat a project the caller cannot see as ordinary words
            pass
    return None, words_of(query.q)


async def _find(
    reader: Reader, kinds: tuple[Kind, ...], params: Mapping[str, object]
) -> Mapping[Kind, list[ResultKey]]:
    """Return the newest matches of each kind, up to one more than `candidates` to show that there are more."""
    in_project = params["project_id"] is not None
    rows = await reader.fetch_slow(_newest_of(kinds, LIMITS, in_project=in_project), params)
    found = _by_kind(kinds, rows)
    lacking = tuple(kind for kind in kinds if len(found[kind]) <= LIMITS.candidates)
    if not lacking:
        return found
    rows = await reader.fetch_slow(_indexed_of(lacking, LIMITS, in_project=in_project), params)
    return {**found, **_by_kind(lacking, rows)}


def _by_kind(kinds: tuple[Kind, ...], rows: Sequence[Row]) -> dict[Kind, list[ResultKey]]:
    found: dict[Kind, list[ResultKey]] = {kind: [] for kind in kinds}
    for row in rows:
        found[KINDS[row["kind"]]].append(_key_of(row))
    return found


async def _read(reader: Reader, page: Sequence[ResultKey], params: Mapping[str, object]) -> list[Row]:
    ids: dict[str, list[object]] = {}
    for key in page:
        ids.setdefault(_ids(KINDS[key.kind]), []).append(key.number or key.place_id)
    kinds = tuple(kind for kind in KINDS if _ids(kind) in ids)
    if not kinds:
        return []
    return sorted(await reader.fetch_slow(_page_rows_of(kinds), {**params, **ids}), key=_key_of, reverse=True)


def _key_of(row: Row) -> ResultKey:
    return ResultKey(*(row[name] for name in ResultKey._fields))
