"""Who may look into a project and change what is in it.

Every resource of the work API hangs on a project, so a resource is read together with its project and the caller's
place in it: `with_access` adds to a SELECT what `access_of` needs, which costs no query of its own.

    _one = with_access(sa.select(tasks).where(tasks.c.id == sa.bindparam("id")), tasks.c.repository_id)
    row = await reader.fetch_one(_one, {"id": task_id, "user_id": actor.user.id})
    access = access_of(row, actor)
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from workhook.core.errors import Conflict, Forbidden, NotFound
from workhook.identity.queries import by_membership, repository_columns, repository_of, role_columns
from workhook.identity.schemas import Account, Actor, Repository
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.identity.tokens.lookup import check_reach
from workhook.storage import Reader, Row
from workhook.storage.metadata import big
from workhook.storage.statements import hot
from workhook.work.clients.tables import clients

Role = Literal["owner", "member", "client"]

NO_RANK = 0
RANKS = {"client": 1, "read": 2, "write": 3, "admin": 4, "owner": 5}
"""Places in a project, each with all the rights of those before it. A client has a view of its own: what a member was
shown is not for the same person as a client. In an account: `write` for members and apps, `owner`."""

_PREFIX = "project_"  # of the columns that `with_access` adds, but for those of the owner, `owner_…`


class Access(msgspec.Struct, frozen=True):
    """One caller in one project. `reads_only`: a collaborator who was added with the role read."""

    actor: Actor
    repository: Repository
    role: Role
    reads_only: bool = False

    @property
    def user(self) -> Account:
        return self.actor.user

    @property
    def is_client(self) -> bool:
        return self.role == "client"

    def require_writable(self) -> None:
        """Before anything in the project is changed. Raises `Forbidden` and, if it is archived, `Conflict`."""
        if self.reads_only:
            raise Forbidden(f"You need the role write in the project {self.repository.full_name}.", code="missing_role")
        require_not_archived(self.repository)

    def hide_from_clients(self) -> None:
        """For what a client never sees, timesheets and rates among it. Raises `NotFound`."""
        if self.is_client:
            self.actor.request.touches(self.repository.owner.id, self.repository.id, hidden=True)
            raise NotFound()

    def require_member(self, doing: str) -> None:
        """For what a client sees but may not do; `doing` ends the sentence "Clients cannot …". Raises `Forbidden`."""
        if self.is_client:
            raise Forbidden(f"Clients cannot {doing}.", code="missing_role")

    def require_owner(self, doing: str) -> None:
        """`doing` ends the sentence "Only an owner can …". Raises `Forbidden`."""
        if self.role != "owner":
            raise Forbidden(f"Only an owner of {self.repository.owner.login} can {doing}.", code="missing_role")

    def require_sight(self, private: bool) -> None:
        """What is private does not exist for clients. Raises `NotFound`."""
        if private:
            self.hide_from_clients()

    def require_own(self, user_id: int, doing: str) -> None:
        """A client edits and deletes only what it made itself. Raises `Forbidden`."""
        if self.is_client and user_id != self.user.id:
            raise Forbidden(f"Clients can {doing} only what they made themselves.", code="missing_role")


def require_not_archived(repository: Repository) -> None:
    """Raises `Conflict`."""
    if repository.archive:
        raise Conflict("The project is archived; take it up again (archive: false) to change it.", code="archived")


_looking = clients.alias("looking")  # a statement may select clients besides
is_client = sa.exists().where(
    _looking.c.repository_id == projects.c.repository_id, _looking.c.user_id == big("user_id")
)
"""Whether the parameter `user_id` is a client of the project."""


def is_insider(user_id: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Whether the user has a role in the project, as `identity.queries` finds it; others are clients, if anything."""
    return sa.or_(
        projects.c.account_id == user_id,
        sa.exists().where(
            memberships.c.organization_id == projects.c.account_id, memberships.c.user_id == user_id, by_membership
        ),
        sa.exists().where(
            collaborators.c.repository_id == projects.c.repository_id, collaborators.c.user_id == user_id
        ),
    )


def with_access(statement: sa.Select[Any], repository_id: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """`statement` with the project that `repository_id` names and the place of the parameter `user_id` in it.

    Projects that were deleted are left out, and with them what they hold. The columns that are added begin with
    `project_` and `owner_`, or are `member_role`, `collaborator_role` and `is_client`.
    """
    return (
        statement.join(projects, projects.c.repository_id == repository_id)
        .join(accounts, accounts.c.id == projects.c.account_id)
        .where(projects.c.deleted_at.is_(None))
        .add_columns(*repository_columns(_PREFIX), *role_columns, is_client.label("is_client"))
    )


_project = hot(
    sa.select(*repository_columns(_PREFIX), *role_columns, is_client.label("is_client"))
    .join_from(projects, accounts, accounts.c.id == projects.c.account_id)
    .where(projects.c.id == sa.bindparam("project_id"), projects.c.deleted_at.is_(None))
)


def access_of(row: Row | None, actor: Actor) -> Access:
    """From a row of a `with_access` statement. Raises `NotFound` for no row, for a caller with no place there, and
    outside the reach of the caller's token; `Forbidden` where the token's permissions are not enough."""
    if row is None:
        raise NotFound()
    repository = repository_of(row, actor.user.id, _PREFIX)
    hidden = repository.role is None and not row["is_client"]
    actor.request.touches(repository.owner.id, repository.id, hidden=hidden)
    if hidden:
        raise NotFound()
    check_reach(actor, repository.owner.id, repository.id)
    actor.request.rests_on(repository.owner.id, repository.id, rank_in(row, repository, actor.user.id))
    if repository.role is None:
        return Access(actor, repository, "client")
    owns = _owns(row, repository, actor.user.id)
    if owns:
        actor.request.views_as_owner(repository.owner.id)
    return Access(actor, repository, "owner" if owns else "member", reads_only=repository.role == "read")


def _owns(row: Row, repository: Repository, user_id: int) -> bool:
    return repository.owner.id == user_id or bool(row["member_role"] == "owner")


def rank_in(row: Row, repository: Repository, user_id: int) -> int:
    """One of `RANKS`: what the user is in the repository, whose row has `role_columns` and `is_client`."""
    if _owns(row, repository, user_id):
        return RANKS["owner"]
    if repository.role is not None:
        return RANKS[repository.role]
    return RANKS["client"] if row["is_client"] else NO_RANK


async def find_access(reader: Reader, actor: Actor, project_id: str) -> Access:
    """The project of a path such as `/projects/{id}/columns`. Raises `NotFound`."""
    return access_of(await reader.fetch_one(_project, {"project_id": project_id, "user_id": actor.user.id}), actor)
