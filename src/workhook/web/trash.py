"""The trash of a project, and the deleted projects of an account."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from workhook.core.clock import DAY_MS, now_ms, parse_rfc3339
from workhook.core.errors import NotFound
from workhook.http.calls import Response
from workhook.http.lists import ListQuery
from workhook.identity.context import Write
from workhook.identity.schemas import Organization
from workhook.web.frame import paging
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.listing import BUSY
from workhook.web.organization.settings import entries, settings_page
from workhook.work.board.tasks import actions
from workhook.work.files.actions import restore_file
from workhook.work.history import trash as api

places = Places("trash")
ROWS = 50


@places.get("/{owner}/{project}/trash")
async def trash(visit: Visit) -> Response:
    """Show the deleted tasks and files of a project that can be restored."""
    access = await visit.follow()
    cursor = visit.query("cursor")
    query = ListQuery(per_page=ROWS, cursor=cursor or UNSET)
    listed = await api.list_project_trash(visit.call, access.repository.project_id, query)
    return visit.page("trash/trash.html", **_page(listed, cursor))


def _page(listed: Any, cursor: str) -> dict[str, Any]:
    return {
        "deleted": [(each, parse_rfc3339(each.deleted_at)) for each in listed.body.trash],
        "kept_ms": api.KEPT_MS,
        "days": api.KEPT_MS // DAY_MS,
        "more": paging.next_page(listed.headers),
        "begins": not cursor,
    }


@places.post("/{owner}/{project}/trash/{kind}/{deleted_id}", action="trash.restore")
async def restore(visit: Visit) -> Response:
    access = await visit.access()
    access.require_member("see deleted items")
    project_id, deleted_id = access.repository.project_id, visit.path("deleted_id")

    async def take_out(write: Write) -> str:
        if visit.path("kind") == "task":
            return (await actions.restore_task(write, deleted_id, project_id=project_id)).title
        if visit.path("kind") != "file":
            raise NotFound()
        file: Any = await restore_file(write, deleted_id)
        if file.project.id != project_id:
            raise NotFound()
        return str(file.title)

    title = await visit.change(take_out, retry=BUSY)
    return visit.done(paging.project_address(visit, "trash"), gettext("“%(title)s” was restored.", title=title))


owner_places = Places("deleted_projects")


@owner_places.get("/{owner}/-/trash")
async def show(visit: Visit) -> Response:
    """Show the deleted projects of an account that the visitor can restore."""
    account, role = await visit.account()
    cursor = visit.query("cursor")
    listed = await api.list_trash_of(visit.call, ListQuery(per_page=ROWS, cursor=cursor or UNSET), account.id)
    if role is None and not listed.body.trash:  # a stranger may have been an admin of a deleted project
        raise visit.hidden(account)
    tabs = entries() if account.kind == "organization" and role == "owner" else []
    place, values = Organization(account, role), _page(listed, cursor)
    return settings_page(visit, place, "organization/trash.html", entries=tabs, now=now_ms(), **values)
