"""`/projects/{id}/members`, `/me` and `/organizations/{login}/members`."""

from __future__ import annotations

from collections.abc import Sequence

from workhook.http import lists
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.storage import Row
from workhook.work.members import actions
from workhook.work.members.schemas import MemberAnswer, MemberCreate, MembersAnswer, UserAnswer
from workhook.work.people import person_of_row, person_shape
from workhook.work.schemas import Done

routes = Routes(WORK_API, "Members", read="work.read", write="work.write")


@routes.get("/projects/{id}/members", answers={200: MembersAnswer})
async def list_members(call: Call, project_id: str, query: ListQuery) -> Answer:
    """List who is in a project.

    Owners of the organization, its members unless the project is private, and who was added. Clients are listed
    apart.
    """
    found = await actions.list_members(
        call.database, actor_of(call), project_id, after=_after(query), limit=query.limit + 1
    )
    return _page(call, found, query)


@routes.post("/projects/{id}/members")
async def add_member(write: Write, project_id: str, create: MemberCreate) -> MemberAnswer:
    """Add somebody to a project.

    For owners and admins of the project. Whoever is added may write there, also without being in the organization.
    Somebody who is neither in the organization nor in another one together with the caller is invited: `pending` is
    true, and the place is theirs once they accept (`PATCH /user/repository_invitations/{invitation_id}`). Adding
    somebody again changes nothing.
    """
    return await actions.add_member(write, project_id, create.username)


@routes.delete("/projects/{id}/members/{username}", without=(412,))
async def remove_member(write: Write, project_id: str, username: str) -> Done:
    """Remove somebody who was added to a project.

    For owners and admins of the project; anybody can leave, a client too. Takes an invitation back as well. What
    the organization gives stays: 409 for whoever has only that.
    """
    await actions.remove_member(write, project_id, username)
    return Done()


@routes.get("/me", tag="Users")
async def get_me(call: Call) -> UserAnswer:
    """The caller."""
    return UserAnswer(person_shape(actor_of(call).user))


@routes.get("/organizations/{login}/members", tag="Users", answers={200: MembersAnswer})
async def list_organization_members(call: Call, login: str, query: ListQuery) -> Answer:
    """List who is in an organization.

    For those who are in it.
    """
    found = await actions.list_people(call.database, actor_of(call), login, after=_after(query), limit=query.limit + 1)
    return _page(call, found, query)


def _after(query: ListQuery) -> int:
    """The id behind which the page starts."""
    key = lists.after(query, tuple[int])
    return max(0, min(key[0], 2**63 - 1)) if key else 0


def _page(call: Call, found: Sequence[Row], query: ListQuery) -> Answer:
    rows, headers = lists.page(call, found, query, lambda row: (row["user_id"],))
    return Answer(MembersAnswer([person_of_row(row) for row in rows]), headers=headers)
