"""`/settings/account`: export the user's own data and delete their account."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

import msgspec

from workhook.core import json
from workhook.core.clock import now_ms, to_millis_text
from workhook.core.errors import Invalid
from workhook.core.records import to_response
from workhook.http.calls import Call, Response
from workhook.http.lists import PER_PAGE_MAX, ListQuery
from workhook.http.messages import disposition
from workhook.identity import audit
from workhook.identity.members import user_get, user_organizations, user_repositories
from workhook.identity.oauth import grants
from workhook.identity.signin import passwords, sessions
from workhook.identity.tokens.personal import tokens_list
from workhook.storage import Row
from workhook.storage.pages import Page
from workhook.web.frame import cookies, paging, render
from workhook.web.frame.forms import UNSENT, PageForm, form_page
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.project import names
from workhook.work.administration.accounts import find_obstacles, remove_user
from workhook.work.history import all_projects as across
from workhook.work.history import notifications
from workhook.work.history.all_projects import (
    AllCommentsQuery,
    AllFilesQuery,
    AllTasksQuery,
    AllTimesheetsQuery,
)
from workhook.work.money.invoices.settings import find_account_billing

places = Places("own_data")

PATH = "/settings/account"
DELETE_PATH = f"{PATH}/delete"

_NUMBERED: Sequence[tuple[str, Callable[[Call, Page], Awaitable[Any]]]] = (
    ("organizations", user_organizations),
    ("projects", user_repositories),
    ("tokens", tokens_list),
)
_BY_CURSOR: Sequence[tuple[str, Callable[[Call, Any], Awaitable[Any]], ListQuery]] = (
    ("tasks", across.list_all_tasks, AllTasksQuery(assignee="me", per_page=PER_PAGE_MAX)),
    ("timesheets", across.list_all_timesheets, AllTimesheetsQuery(user="me", per_page=PER_PAGE_MAX)),
    ("files", across.list_all_files, AllFilesQuery(user="me", per_page=PER_PAGE_MAX)),
    ("comments", across.list_comments, AllCommentsQuery(user="me", per_page=PER_PAGE_MAX)),
    ("notifications", notifications.list_notifications, notifications.NotificationsQuery(per_page=PER_PAGE_MAX)),
)


@places.get(PATH)
async def show_own_data(visit: Visit) -> Response:
    return visit.page("account/data.html")


@places.post(f"{PATH}/export", action="user.export")
async def download_own_data(visit: Visit) -> Response:
    visit.require_recent(PATH)
    user, call = visit.actor.user, visit.call
    facts = {
        "exported_at": to_millis_text(now_ms()),
        "account": await user_get(call),
        "sign_in_email": await passwords.find_email(visit.database, user.id),
        "billing": to_response(await find_account_billing(visit.database, user.id)),
        "notification_settings": (await notifications.get_notification_settings(call)).notification_settings,
        "sessions": [_timed(row) for row in await sessions.list_of(visit.database, user.id)],
        "apps": [_timed(row) for row in await grants.list_grants(visit.database, user.id)],
    }
    await visit.change(lambda write: audit.record(write.tx, write.actor, "user.export", user.login, account_id=user.id))
    headers = {**disposition(f"{user.login}.json"), "Cache-Control": "no-store"}
    return Response(_whole(call, facts), headers=headers, media_type="application/json")


def _timed(row: Row) -> dict[str, Any]:
    names: Sequence[str] = row.keys()
    return {name: to_millis_text(row[name]) if name.endswith("_at") else row[name] for name in names}


async def _whole(call: Call, facts: Mapping[str, object]) -> AsyncIterator[bytes]:
    """Stream one JSON object, reading each list page by page."""
    yield json.encode_for(call.record.viewer, facts)[:-1]
    for name, pages in (
        *((name, _numbered_pages(call, read)) for name, read in _NUMBERED),
        *((name, _cursor_pages(call, name, read, query)) for name, read, query in _BY_CURSOR),
    ):
        start = b',"%s":[' % name.encode()
        async for rows in pages:
            yield start + json.encode_for(call.record.viewer, rows)[1:-1]
            start = b","
        yield b"]" if start == b"," else start + b"]"
    yield b"}\n"


async def _numbered_pages(call: Call, read: Callable[[Call, Page], Awaitable[Any]]) -> AsyncIterator[Sequence[object]]:
    offset = 0
    while rows := (await read(call, Page(PER_PAGE_MAX, offset))).body:
        yield rows
        offset += PER_PAGE_MAX


async def _cursor_pages(
    call: Call, name: str, read: Callable[[Call, Any], Awaitable[Any]], query: ListQuery
) -> AsyncIterator[Sequence[object]]:
    while True:
        found = await read(call, query)
        if rows := getattr(found.body, name):
            yield rows
        if (behind := paging.next_page(found.headers)) is None:
            return
        query = msgspec.structs.replace(query, cursor=parse_qs(behind[1:])["cursor"][-1])


@places.get(DELETE_PATH)
async def ask_to_delete(visit: Visit, form: PageForm = UNSENT) -> Response:
    """Ask for the login before the account is deleted, or list the obstacles."""
    obstacles = [each.message for each in await find_obstacles(visit.database, visit.actor.user)]
    return visit.page("account/delete.html", form=form, faults=form.reasons, obstacles=obstacles)


@places.post(DELETE_PATH, action="user.delete")
@form_page(ask_to_delete)
async def delete_account(visit: Visit) -> Response:
    """Delete the visitor's account if they typed its login."""
    visit.require_recent(DELETE_PATH)
    login = visit.actor.user.login
    if not names(visit.fields.get("login", ""), login):
        raise Invalid(gettext("That isn’t your login. Nothing was deleted."))

    await visit.change(lambda write: remove_user(write, login))
    signed_out = cookies.write(visit.call, cookies.SESSION, "", max_age_s=0)
    return render.page("account/deleted.html", headers=signed_out, login=login)
