"""The invoices of all projects that the caller sees. Clients do not see drafts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.identity.schemas import Actor
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row
from workhook.storage.statements import PerDialect
from workhook.work.board.tasks.matching import matches, words_of
from workhook.work.history.across import walks
from workhook.work.history.across.places import (
    ProjectChoice,
    choice_of,
    place_columns,
    read_place,
    username_key,
    visible_projects,
)
from workhook.work.history.across.schemas import AllInvoicesQuery, PlacedInvoice, RecordPlace
from workhook.work.history.across.walks import AcrossPage, Condition, Walk
from workhook.work.kernel.pages import per_dialect
from workhook.work.kernel.schemas import if_set
from workhook.work.money.invoices.drafting import invoice_of, invoices_with_people, weight
from workhook.work.money.invoices.schemas import IS_OPEN, invoices, is_late

_KEY = ("id",)


def made_by(row: sa.FromClause) -> Condition:
    """Whether the user whose name is the parameter `user` made a row that was looked at."""
    named = sa.select(accounts.c.id).where(accounts.c.login_key == sa.bindparam("user")).scalar_subquery()
    return row.c.user_id == named


def _is_late(row: sa.FromClause) -> Condition:
    """Of a row that has the name of the table, or another that is written here: the index knows it by these words."""
    is_open: Condition = sa.literal_column(f"{row.name}.{IS_OPEN}", sa.Boolean)  # type: ignore[attr-defined]  # an alias
    return sa.and_(is_open, is_late(row))


def _seen(row: sa.FromClause) -> Condition:
    return sa.or_(row.c.insider == 1, row.c.status != "draft")


@lru_cache(maxsize=128)
def _statement(choice: ProjectChoice, names: frozenset[str], overdue: bool | None, newest: bool) -> PerDialect:
    """`names`: those of the parameters `status`, `user`, `q` and `after_id` that are given."""
    narrow: list[Callable[[sa.FromClause], Condition]] = []
    fits: list[Callable[[sa.FromClause], Condition]] = [] if choice.team_only else [_seen]
    if "status" in names:
        narrow.append(lambda row: row.c.status == sa.bindparam("status"))
    if overdue:
        narrow.append(_is_late)
    if overdue is False:
        fits.append(lambda row: sa.not_(_is_late(row)))
    if "user" in names:
        fits.append(made_by)
    if "after_id" in names:
        behind = walks.behind(_KEY, falling=newest)
        narrow.append(lambda row: behind({"id": row.c.id}))
    walk = Walk(
        invoices,
        lambda row: {"id": row.c.id},
        falling=newest,
        narrow=narrow,
        asked=("status", "overdue_at", "user_id"),
        fits=fits,
        filtered=overdue is False or "user" in names,
    )

    def make(dialect: str) -> sa.Select[Any]:
        visible = visible_projects(choice)
        if "q" in names:
            judged = walks.found_by_words(walk, visible, matches(invoices))
        else:
            judged = walks.looked_at(walk, visible, dialect)
        page = walks.page_of(judged, _KEY, falling=newest)
        sized = walks.sized(walks.size_of(page, invoices, weight), _KEY, falling=newest)
        return (
            invoices_with_people.join(sized, sized.c.id == invoices.c.id)
            .join(projects, projects.c.repository_id == sized.c.repository_id)
            .add_columns(*place_columns, *walks.page_columns(sized, _KEY))
            .order_by(*walks.in_order([sized.c.id], newest))
        )

    return per_dialect(make)


async def list_all_invoices(
    reader: Reader,
    actor: Actor,
    query: AllInvoicesQuery,
    *,
    now: int,
    after: Sequence[object] | None,
    newest: bool = False,
) -> AcrossPage[PlacedInvoice]:
    """By id, one more than the page shows; `after` is the key behind which to start. `newest`: the last that was made
    comes first."""
    choice, params = choice_of(actor, query)
    given: dict[str, object] = walks.after_params(_KEY, after)
    if (status := if_set(query.status)) is not None:
        given["status"] = status
    if (user := if_set(query.user)) is not None:
        given["user"] = username_key(user, actor)
    if (words := if_set(query.q)) is not None:
        given["q"] = words_of(words)
    params |= {**given, "limit": query.limit + 1, "most": walks.LOOKS_AT_MOST, "now": now}

    def make(row: Row) -> PlacedInvoice:
        place = RecordPlace(*read_place(row, actor))
        return PlacedInvoice(**msgspec.structs.asdict(invoice_of(row)), project=place)

    statement = _statement(choice, frozenset(given), if_set(query.overdue), newest)
    return walks.read_page(await reader.fetch_all(statement, params), _KEY, make)
