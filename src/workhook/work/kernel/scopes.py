"""The projects that a list covers: one whose access was already checked, or all that the caller can see.

Members see projects that are not private, owners and apps see all, and collaborators and clients see the projects to
which they were added. A confined token sees only what it reaches. A named project that the caller cannot see is
skipped, as if it did not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec import Meta, UnsetType

from workhook.core.money import DEFAULT_CURRENCY
from workhook.http.parameters import Rule
from workhook.identity.queries import key_of
from workhook.identity.schemas import Actor, Repository
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.identity.tokens.lookup import reach_params, within_reach
from workhook.storage import Row
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.work.kernel.access import Access, is_client, is_insider, role_in
from workhook.work.kernel.list_statements import caller_accounts, with_flag
from workhook.work.kernel.tables import clients

PROJECTS_MAX = 100
_ID_MAX = 64


def _are_project_ids(text: str) -> bool:
    found = text.split(",")
    return len(found) <= PROJECTS_MAX and all(0 < len(each.strip()) <= _ID_MAX for each in found)


OrganizationLogin = Annotated[str, Meta(description="Only projects of this owner (login).")]
ProjectIds = Annotated[
    str,
    Meta(description="Only these projects (IDs separated by commas)."),
    Rule.accepts(_are_project_ids, f"IDs of projects, at most {PROJECTS_MAX}, separated by commas"),
]

ME = "me"
"""A username that means the caller."""

CALLER = bigint_param("user_id")

_insider = is_insider(CALLER)
WHOLE, CHOSEN = "reach_whole_accounts", "reach_repositories"
_organization = sa.select(accounts.c.id).where(accounts.c.login_key == sa.bindparam("organization")).scalar_subquery()


class Scope(msgspec.Struct, frozen=True):
    """The projects that a statement covers.

    - `confined`: limited by a token that does not reach everything its user sees.
    - `names`: which of the parameters `organization` and `project_ids` narrow it.
    - `team_only`: without projects in which the caller is a client.
    - `archived`: with archived projects.
    - `project`: only the project in the parameter `repository_id`, where the caller is an insider (1) or a client (0).
    """

    confined: bool = False
    names: frozenset[str] = frozenset()
    team_only: bool = False
    archived: bool = True
    project: Literal[0, 1] | None = None


class ProjectRef(NamedTuple):
    """The project of a row. `repository` is set only if access was already checked."""

    id: str
    title: str
    currency: str
    repository: Repository | None = None


class Source(msgspec.Struct, frozen=True):
    """The projects that a list covers for a caller.

    `params` are the parameters of `scope`, and `zone` applies to bare days in filters.
    """

    scope: Scope
    params: Mapping[str, object]
    actor: Actor
    place: ProjectRef | None = None
    zone: tzinfo = UTC

    def key_of(self, username: str) -> str:
        """Return the login key for a username in a filter. In lists across projects, `me` means the caller."""
        return key_of(self.actor.user.login if username == ME and self.place is None else username)


def source_of_project(access: Access, zone: tzinfo = UTC) -> Source:
    """Return a source that covers one project."""
    repository = access.repository
    params = {"repository_id": repository.id, "user_id": access.user.id}
    place = ProjectRef(repository.project_id, repository.title, repository.currency, repository)
    return Source(Scope(project=0 if access.is_client else 1), params, access.actor, place, zone)


def source_across_projects(
    actor: Actor, query: Any, *, team_only: bool = False, archived: bool = True, zone: tzinfo = UTC
) -> Source:
    """Return a source covering all projects selected by the fields `organization` and `project_id` of a query."""
    filters: dict[str, object] = {}
    if not isinstance(query.organization, UnsetType):
        filters["organization"] = key_of(query.organization)
    if not isinstance(query.project_id, UnsetType):
        filters["project_ids"] = sorted({each.strip() for each in query.project_id.split(",")})
    scope = Scope(actor.grants is not None, frozenset(filters), team_only, archived)
    return Source(scope, {**filters, "user_id": actor.user.id, **reach_params(actor)}, actor, zone=zone)


class VisibleProjects(NamedTuple):
    """The visible projects.

    `each` selects their `repository_id` and `insider` (1, or 0 for a client), and `number` their count.
    """

    each: sa.CTE
    number: sa.ScalarSelect[int]


def visible_projects(scope: Scope, *narrower: sa.ColumnElement[bool]) -> VisibleProjects:
    """Select the projects of the scope that the caller can see. `narrower` conditions leave only few projects."""
    conditions = [*narrower, projects.c.deleted_at.is_(None)]
    if not scope.archived:
        conditions.append(projects.c.archive.is_(sa.false()))
    if "organization" in scope.names:
        conditions.append(projects.c.account_id == _organization)
    if "project_ids" in scope.names:
        conditions.append(any_of(projects.c.id, "project_ids"))
    if narrower or "project_ids" in scope.names:
        reach = [within_reach(projects.c.account_id, projects.c.repository_id)] if scope.confined else []
        each = _judged_one_by_one(scope, *conditions, *reach).cte("place")
    else:
        each = _of_ways(scope, conditions).cte("place")
    return VisibleProjects(each, sa.select(sa.func.count()).select_from(each.alias("counted")).scalar_subquery())


def _judged_one_by_one(scope: Scope, *conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Check a small number of projects one by one for a role of the caller."""
    has_place = _insider if scope.team_only else sa.or_(_insider, is_client)
    insider = sa.case((_insider, 1), else_=0).label("insider")
    return sa.select(projects.c.repository_id, insider).where(*conditions, has_place)


def _of_ways(scope: Scope, conditions: Sequence[sa.ColumnElement[bool]]) -> sa.Select[Any]:
    """Find projects through the roles of the caller, and among the projects chosen for a token.

    This avoids reading private projects of an organization for callers who cannot see them.
    """
    account = caller_accounts(within=WHOLE if scope.confined else None)
    sees_all = sa.or_(account.c.role == "owner", account.c.role == "app")
    stretch = with_flag(account, "private", both=sees_all)
    in_stretch = sa.and_(projects.c.account_id == stretch.c.account_id, projects.c.private == stretch.c.private)
    insider, outsider = (sa.literal_column(each, sa.Integer).label("insider") for each in ("1", "0"))
    ways = [sa.select(projects.c.repository_id, insider).select_from(stretch.join(projects, in_stretch))]
    reached = [any_of(projects.c.account_id, WHOLE)] if scope.confined else []
    by_hand = [(collaborators, insider)] if scope.team_only else [(collaborators, insider), (clients, outsider)]
    for table, flag in by_hand:
        joined = table.join(projects, projects.c.repository_id == table.c.repository_id)
        ways.append(
            sa.select(projects.c.repository_id, flag).select_from(joined).where(table.c.user_id == CALLER, *reached)
        )
    ways = [each.where(*conditions) for each in ways]
    if scope.confined:
        ways.append(_judged_one_by_one(scope, any_of(projects.c.repository_id, CHOSEN), *conditions))
    found = sa.union_all(*ways).subquery("found")
    return sa.select(found.c.repository_id, sa.func.max(found.c.insider).label("insider")).group_by(
        found.c.repository_id
    )


# --- the project of a row ---------------------------------------------------------------------------------------------

place_columns: Sequence[sa.Label[Any]] = (
    projects.c.id.label("place_id"),
    projects.c.title.label("place_title"),
    projects.c.account_id.label("place_account_id"),
    projects.c.currency.label("place_currency"),
    role_in(memberships, projects, CALLER).label("place_role"),
)
"""The columns that `read_place` needs, for a statement that selects projects."""


def read_place(row: Row, actor: Actor) -> ProjectRef:
    """Read the project from the `place_columns` of a row. If the caller owns it, let them see members' addresses."""
    account_id = row["place_account_id"]
    if row["place_role"] == "owner" or account_id == actor.user.id:
        actor.request.show_as_owner(account_id)
    return ProjectRef(row["place_id"], row["place_title"], row["place_currency"] or DEFAULT_CURRENCY)
