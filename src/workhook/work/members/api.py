"""`/projects/{id}/members`, `/me` and `/organizations/{login}/members`."""

from __future__ import annotations

from collections.abc import Sequence

from workhook.http import lists, parameters
from workhook.http.calls import Answer, Call
from workhook.http.lists import ListQuery
from workhook.http.operations import AREA_A, Operation
from workhook.identity.guard import actor_of
from workhook.storage import Row, Transaction
from workhook.work.announce import base_of
from workhook.work.members import actions
from workhook.work.members.schemas import MemberAnswer, MemberCreate, MembersAnswer, UserAnswer
from workhook.work.people import person_of_row, person_shape
from workhook.work.schemas import Done

TAG = "Members"
USERS = "Users"


async def list_members(call: Call) -> Answer:
    query = parameters.read_query(call, ListQuery)
    found = await actions.list_members(
        call.database, actor_of(call), call.path("id"), after=_after(query), limit=query.limit + 1
    )
    return _page(call, found, query)


async def add_member(call: Call) -> Answer:
    create = await parameters.read(call, MemberCreate)

    async def change(tx: Transaction) -> Answer:
        added = await actions.add_member(tx, actor_of(call), call.path("id"), create.username, base=base_of(call))
        return Answer(added)

    return await call.write(change)


async def remove_member(call: Call) -> Answer:
    async def change(tx: Transaction) -> Answer:
        await actions.remove_member(tx, actor_of(call), call.path("id"), call.path("username"), base=base_of(call))
        return Answer(Done())

    return await call.write(change)


async def get_me(call: Call) -> Answer:
    return Answer(UserAnswer(person_shape(actor_of(call).user)))


async def list_organization_members(call: Call) -> Answer:
    query = parameters.read_query(call, ListQuery)
    found = await actions.list_people(
        call.database, actor_of(call), call.path("login"), after=_after(query), limit=query.limit + 1
    )
    return _page(call, found, query)


def _after(query: ListQuery) -> int:
    """The id behind which the page starts."""
    key = lists.after(query, tuple[int])
    return max(0, min(key[0], 2**63 - 1)) if key else 0


def _page(call: Call, found: Sequence[Row], query: ListQuery) -> Answer:
    rows, headers = lists.page(call, found, query, lambda row: (row["user_id"],))
    return Answer(MembersAnswer([person_of_row(row) for row in rows]), headers=headers)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        AREA_A,
        "GET",
        "/projects/{id}/members",
        list_members,
        "list_members",
        "List who is in a project",
        "work.read",
        tag=TAG,
        query=parameters.documented(ListQuery),
        answers={200: MembersAnswer},
        problems=(403, 404, 422),
        description="Owners of the organization, its members unless the project is private, and who was added. "
        "Clients are listed apart.",
    ),
    Operation(
        AREA_A,
        "POST",
        "/projects/{id}/members",
        add_member,
        "add_member",
        "Add somebody to a project",
        "work.write",
        tag=TAG,
        body=MemberCreate,
        query=parameters.documented(MemberCreate, or_body=True),
        answers={200: MemberAnswer},
        problems=(400, 403, 404, 409, 413, 415, 422),
        description="For owners and admins of the project. Whoever is added may write there, also without being in the "
        "organization. Somebody who is neither in the organization nor in another one together with the caller is "
        "invited: `pending` is true, and the place is theirs once they accept "
        "(`PATCH /user/repository_invitations/{invitation_id}`). Adding somebody again changes nothing.",
    ),
    Operation(
        AREA_A,
        "DELETE",
        "/projects/{id}/members/{username}",
        remove_member,
        "remove_member",
        "Remove somebody who was added to a project",
        "work.write",
        tag=TAG,
        answers={200: Done},
        problems=(403, 404, 409),
        description="For owners and admins of the project; anybody can leave, a client too. Takes an invitation back "
        "as well. What the organization gives stays: 409 for whoever has only that.",
    ),
    Operation(
        AREA_A,
        "GET",
        "/me",
        get_me,
        "get_me",
        "The caller",
        "work.read",
        tag=USERS,
        answers={200: UserAnswer},
    ),
    Operation(
        AREA_A,
        "GET",
        "/organizations/{login}/members",
        list_organization_members,
        "list_organization_members",
        "List who is in an organization",
        "work.read",
        tag=USERS,
        query=parameters.documented(ListQuery),
        answers={200: MembersAnswer},
        problems=(404, 422),
        description="For those who are in it.",
    ),
)
