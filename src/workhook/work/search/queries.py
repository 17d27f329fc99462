"""The statements that search what a caller sees.

Of each kind the newest that have the words are looked for, no more than a bound: first among the newest rows,
which is quick where the words are common, and where those are not enough, by the index of words among all. Whatever
the caller does not see counts for nothing in it. Then the texts of those are read that a page shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple

import sqlalchemy as sa
from msgspec import Meta

from workhook.identity.schemas import Actor
from workhook.identity.tables import projects
from workhook.identity.tokens.lookup import reach_params
from workhook.storage import Reader, Row
from workhook.storage.dialects import any_of
from workhook.storage.statements import PerDialect
from workhook.work.search.match import are_found, has_words, index_of, matches, number_of, numbers
from workhook.work.search.places import SCOPES, SearchScope, seen
from workhook.work.search.schemas import KINDS, FoundIn, FoundRecord, Kind

TEXT_CHARS = 4000
"""How much of a text is read to make an excerpt of."""


class SearchLimits(NamedTuple):
    """Of each kind. `candidates`: no more are found, the newest that the caller sees. `rows`: on PostgreSQL so many of
    the newest are looked at first, with so many `characters` in all: to take a text apart costs more than to read it.
    `matches`: on SQLite, whose index of words gives the newest first; `rows_of_project`: there, within one project,
    whose newest may be older than all of these."""

    candidates: int
    rows: int
    characters: int
    matches: int
    rows_of_project: int


LIMITS = SearchLimits(candidates=50, rows=200, characters=30_000, matches=500, rows_of_project=1_000)

_Integer = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # what both databases take for one


class ResultKey(NamedTuple):
    """What results are ordered by, from high to low; `kind` is its scope in `KINDS`."""

    created_at: _Integer
    kind: _Integer
    number: _Integer
    place_id: str


class Searched(NamedTuple):
    """`incomplete`: the caller sees more that has the words than was looked for. `more_behind`: the key behind which a
    next page begins, if there is one."""

    found: list[FoundRecord]
    incomplete: bool
    more_behind: ResultKey | None


def _candidates(kind: Kind, limits: SearchLimits) -> sa.Select[Any]:
    """Of a kind, the newest of those that were made. Imports say when their things were made, so that the time does
    not tell."""
    scope = SCOPES[kind]
    return sa.select(
        _rank(kind).label("kind"),
        scope.table.c.created_at,
        scope.number.label("number"),
        scope.owner.c.id.label("place_id"),
    ).limit(_bound(limits.candidates + 1))


def _bound(rows: int) -> sa.ColumnElement[int]:
    """Written into the statement, so that a plan for any values knows it, too."""
    return sa.literal_column(str(rows), sa.BigInteger)


def _in_project() -> sa.BindParameter[str]:
    return sa.bindparam("project_id", type_=sa.Text)


def _newest(kind: Kind, limits: SearchLimits, *, in_project: bool, dialect: str) -> sa.Select[Any]:
    """Among the newest rows. A kind of which these hold too few is asked for again by `_indexed`."""
    scope = SCOPES[kind]
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
        .where(scope.sees())
        .order_by(rows.c.at.desc())
    )
    if dialect == "postgresql":
        # Of the texts that were read there: no index leads to them, whatever the planner thinks of the words.
        texts = (rows.c[each.name] for each in scope.matching.texts)
        found = found.where(matches(scope.table.c.id, *texts))
    return found.where(projects.c.id == _in_project()) if in_project else found


def _newest_rows(scope: SearchScope, limits: SearchLimits, in_project: bool) -> sa.Subquery:
    """With their texts, until these are too many characters."""
    names = [each.name for each in scope.matching.texts]
    rows = scope.table.alias("rows")
    newest = sa.select(rows.c.id, *(rows.c[name] for name in names)).limit(_bound(limits.rows))
    order = [rows.c.id.desc()]
    if in_project and scope.table is scope.owner:  # which has an index for it
        repository = _repository()
        # Said so that only this index has the order: by the primary key all that is newer would be passed.
        newest = newest.where(rows.c.repository_id.between(repository, repository))
        order = [rows.c.repository_id.desc(), *order]
    some = newest.order_by(*order).subquery("some")
    whole = sa.func.concat(*(some.c[name] for name in names))  # which takes NULL for nothing
    read = sa.func.sum(sa.func.length(whole)).over(order_by=some.c.id.desc()).label("characters")
    texts = [some.c[name] for name in names]
    known = sa.select(some.c.id, some.c.id.label("at"), *texts, read).subquery("known")
    return sa.select(known).where(known.c.characters <= _bound(limits.characters)).subquery("newest")


def _repository() -> sa.ScalarSelect[int]:
    named = projects.alias("named")
    return sa.select(named.c.repository_id).where(named.c.id == _in_project()).scalar_subquery()


def _newest_of_project(scope: SearchScope, limits: SearchLimits) -> sa.Subquery:
    """On SQLite: those of its newest rows that have the words."""
    rows = scope.table.alias("rows")
    newest = (
        sa.select(rows.c.id, number_of(rows.c.id).label("number"))
        .where(rows.c.repository_id == _repository())
        .order_by(rows.c.id.desc())
        .limit(_bound(limits.rows_of_project))
        .cte(f"newest_{scope.table.name}")
    )
    return sa.select(newest.c.id, newest.c.id.label("at")).where(are_found(newest, scope.table)).subquery("newest")


def _newest_matches(scope: SearchScope, limits: SearchLimits) -> sa.Subquery:
    words = index_of(scope.table)
    newest = (
        sa.select(words.c.rowid.label("at"))
        .where(has_words(words.name))
        .order_by(words.c.rowid.desc())
        .limit(_bound(limits.matches))
        .subquery("matching")
    )
    if not isinstance(scope.table.c.id.type, sa.Text):
        return sa.select(newest.c.at.label("id"), newest.c.at).subquery("newest")
    numbered = newest.join(numbers, numbers.c.number == newest.c.at)
    return sa.select(numbers.c.id, newest.c.at).select_from(numbered).subquery("newest")


def _indexed(kind: Kind, limits: SearchLimits, *, in_project: bool) -> sa.Select[Any]:
    """Among all rows, by the index of words."""
    scope = SCOPES[kind]
    row_id = scope.table.c.id
    # In an order that no index has, which would lead past all that does not have the words.
    order = row_id.concat("") if isinstance(row_id.type, sa.Text) else row_id + sa.literal_column("0")
    found = (
        _candidates(kind, limits)
        .select_from(scope.joined.join(seen, seen.c.repository_id == scope.table.c.repository_id))
        .where(scope.is_among_seen(), scope.matching)
        .order_by(order.desc())
    )
    return found.where(seen.c.project_id == _in_project()) if in_project else found


def _rank(kind: Kind) -> sa.ColumnElement[int]:
    return sa.literal_column(str(KINDS.index(kind)), sa.BigInteger)


def _all_of(each: list[sa.Select[Any]]) -> sa.CompoundSelect[Any]:
    return sa.union_all(*(sa.select(one.subquery()) for one in each))


@cache
def _newest_of(kinds: tuple[Kind, ...], limits: SearchLimits, *, in_project: bool) -> PerDialect:
    """One for each combination, since a statement is compiled once."""

    sqlite, postgresql = (
        _all_of([_newest(kind, limits, in_project=in_project, dialect=dialect) for kind in kinds])
        for dialect in ("sqlite", "postgresql")
    )
    return PerDialect(sqlite=sqlite, postgresql=postgresql)


@cache
def _indexed_of(kinds: tuple[Kind, ...], limits: SearchLimits, *, in_project: bool) -> sa.CompoundSelect[Any]:
    return _all_of([_indexed(kind, limits, in_project=in_project) for kind in kinds])


def _shown(kind: Kind) -> sa.Select[Any]:
    """What a page shows of some. Somebody may have written since they were found: who sees them is asked again."""
    scope = SCOPES[kind]
    return (
        sa.select(
            _rank(kind).label("kind"),
            scope.number.label("number"),
            scope.owner.c.id.label("place_id"),
            scope.owner.c.title,
            sa.func.substr(scope.text, 1, sa.literal_column(str(TEXT_CHARS))).label("text"),
            scope.comment_id.label("file_comment_id"),
            scope.table.c.created_at,
            scope.table.c.updated_at,
            projects.c.id.label("project_id"),
            projects.c.title.label("project_title"),
        )
        .select_from(scope.joined.join(projects, projects.c.repository_id == scope.table.c.repository_id))
        .where(any_of(scope.table.c.id, _ids(kind)), scope.sees())
    )


def _ids(kind: Kind) -> str:
    return f"{kind}_ids"


@cache
def _shown_of(kinds: tuple[Kind, ...]) -> sa.CompoundSelect[Any]:
    return _all_of([_shown(kind) for kind in kinds])


async def search(
    reader: Reader,
    actor: Actor,
    words: str,
    *,
    kinds: tuple[Kind, ...],
    project_id: str | None,
    after: ResultKey | None,
    limit: int,
) -> Searched:
    """What the caller sees and has all of `words` (`match.words_of`), the newest first, from behind `after`.

    Raises `storage.slow.QueryTooSlow`.
    """
    params: dict[str, object] = {"user_id": actor.user.id, "q": words, "project_id": project_id}
    params |= reach_params(actor)
    by_kind = await _find(reader, kinds, params)
    keys = sorted((each for some in by_kind.values() for each in some[: LIMITS.candidates]), reverse=True)
    behind = [each for each in keys if after is None or each < after]
    page = behind[:limit]
    return Searched(
        await _read(reader, page, params),
        incomplete=any(len(some) > LIMITS.candidates for some in by_kind.values()),
        more_behind=page[-1] if len(behind) > limit else None,
    )


async def _find(
    reader: Reader, kinds: tuple[Kind, ...], params: Mapping[str, object]
) -> Mapping[Kind, list[ResultKey]]:
    """Of each kind the newest first, one more than are candidates if there are."""
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
        found[KINDS[row["kind"]]].append(ResultKey(*(row[name] for name in ResultKey._fields)))
    return found


async def _read(reader: Reader, page: Sequence[ResultKey], params: Mapping[str, object]) -> list[FoundRecord]:
    ids: dict[str, list[object]] = {}
    for key in page:
        ids.setdefault(_ids(KINDS[key.kind]), []).append(key.number or key.place_id)
    kinds = tuple(kind for kind in KINDS if _ids(kind) in ids)
    if not kinds:
        return []
    rows = await reader.fetch_slow(_shown_of(kinds), {**params, **ids})
    return sorted(map(_found_of, rows), key=key_of, reverse=True)


def _found_of(row: Row) -> FoundRecord:
    return FoundRecord(
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


def key_of(found: FoundRecord) -> ResultKey:
    """What the order of results goes by."""
    return ResultKey(found.created_at, KINDS.index(found.kind), found.number, found.place_id)
