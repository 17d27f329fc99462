"""`/{owner}/-/trash`: the deleted projects of an organization or a user, and the way back."""

from __future__ import annotations

from typing import NamedTuple

from workhook.core.clock import DAY_MS, now_ms, parse_rfc3339
from workhook.core.errors import NotFound
from workhook.http.calls import Answer
from workhook.http.lists import ListQuery
from workhook.identity.queries import find_account, find_member_role
from workhook.identity.schemas import Organization
from workhook.web.frame import paging
from workhook.web.frame.places import Places, Visit
from workhook.web.organization.view import entries
from workhook.work.board.projects import trash as api

places = Places("deleted_projects")
ROWS = 50


class DeletedProject(NamedTuple):
    """`gone_at`: when it is removed for good; None for what has issued invoices, which stays."""

    id: str
    title: str
    deleted_at: int
    gone_at: int | None


@places.get("/{owner}/-/trash")
async def show(visit: Visit) -> Answer:
    """Show the deleted projects of an account that the visitor can restore."""
    account = await find_account(visit.database, visit.path("owner"))
    if account is None or account.kind == "bot":
        raise NotFound()
    role = await find_member_role(visit.database, account.id, visit.actor.user.id)
    if account.id == visit.actor.user.id:
        role = "owner"
    cursor = visit.query("cursor")
    query = ListQuery(per_page=ROWS, cursor=cursor) if cursor else ListQuery(per_page=ROWS)
    listed = await api.list_trash_of(visit.call, query, account.id)
    if role is None and not listed.body.trash:  # somebody from outside may have been an admin of what was deleted
        visit.actor.request.touches(account.id, hidden=True, names=[account.login])
        raise NotFound()
    return visit.page(
        "organization/trash.html",
        place=Organization(account, role),
        entries=entries() if account.kind == "organization" and role == "owner" else [],
        deleted=[_deleted(each) for each in listed.body.trash],
        days=api.KEPT_MS // DAY_MS,
        more=paging.next_page(listed.headers),
        begins=not cursor,
    )


def _deleted(each: api.TrashShape) -> DeletedProject:
    at = parse_rfc3339(each.deleted_at)
    gone_at = at + api.KEPT_MS
    return DeletedProject(each.id, each.title, at, gone_at if gone_at > now_ms() else None)
