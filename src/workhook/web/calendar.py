"""The calendar page of a project by month or week, and its iCalendar feeds."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta

import msgspec

from workhook.core.clock import now_ms
from workhook.core.errors import NotFound
from workhook.core.zones import midnight_of, start_of
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.messages import disposition
from workhook.http.operations import PAGES
from workhook.identity import policy
from workhook.identity.queries import key_of
from workhook.identity.schemas import Actor
from workhook.web.frame import formats, paging
from workhook.web.frame.formats import day_name, month_names, reader_zone, shown_day, span_name, today
from workhook.web.frame.names import called, logins_of
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.listing import TaskRow, edit_task, row_of, undo_of
from workhook.work.board.tasks import listing
from workhook.work.board.tasks.inputs import TaskEdit
from workhook.work.history import feeds
from workhook.work.kernel.access import Access, find_access
from workhook.work.kernel.day_bounds import deadline_params
from workhook.work.kernel.scopes import source_of_project

TASKS_MAX = 500
_FIRST, _LAST = date(1970, 2, 1), date(9998, 12, 1)


class Span(msgspec.Struct, frozen=True):
    """The shown weeks, from `first` to `last`. `month` is the first day of the month, or None in the week view."""

    first: date
    last: date
    month: date | None
    before: str  # the queries of the previous span, of the next one, and of the other view
    after: str
    other: str
    title: str

    @property
    def day_before(self) -> date:
        return self.first - timedelta(days=1)

    @property
    def value(self) -> tuple[str, str]:
        """Return the query parameter of the span."""
        return ("week", self.first.isoformat()) if self.month is None else ("month", f"{self.month:%Y-%m}")


def span_of(visit: Visit) -> Span:
    """Return the span in the query, by default the current month."""
    if week := _read(visit.query("week")):
        return _week(week)
    month = _read(f"{visit.query('month')}-01") or today()
    return _month(month.replace(day=1))


def _read(text: str) -> date | None:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if _FIRST <= found <= _LAST else None


def _week(day: date) -> Span:
    first = day - timedelta(days=day.weekday())
    last = first + timedelta(days=6)
    seven = timedelta(days=7)
    return Span(
        first,
        last,
        None,
        f"week={first - seven}",
        f"week={first + seven}",
        f"month={day:%Y-%m}",
        span_name(first, last),
    )


def _month(first: date) -> Span:
    next_month = (first + timedelta(days=31)).replace(day=1)
    last = next_month - timedelta(days=1)
    now = today()
    week = now if (now.year, now.month) == (first.year, first.month) else first
    title = f"{month_names()[first.month - 1]} {first.year}"
    return Span(
        first - timedelta(days=first.weekday()),
        last + timedelta(days=6 - last.weekday()),
        first,
        f"month={first - timedelta(days=1):%Y-%m}",
        f"month={next_month:%Y-%m}",
        f"week={week}",
        title,
    )


async def read_calendar(visit: Visit, access: Access, span: Span) -> dict[str, object]:
    """Return the weeks of the span with the tasks that are due, and whether `more` are due than are shown."""
    zone, after = reader_zone(), span.last + timedelta(days=1)
    start = min(midnight_of(span.first), start_of(span.first, zone))
    end = max(midnight_of(after), start_of(after, zone))
    filters: dict[str, object] = dict(deadline_params(before=after, after=span.day_before, zone=zone))
    if person := visit.query("assignee"):
        filters["assignee"] = key_of(person)
    found = await listing.list_tasks(
        visit.database, source_of_project(access), filters, sort="deadline", after=(start - 1, ""), limit=TASKS_MAX + 1
    )
    more = len(found) > TASKS_MAX or found.truncated or (found.next_key is not None and found.next_key[0] < end)
    shown, now = found[:TASKS_MAX], now_ms()
    by_day: dict[date, list[TaskRow]] = {}
    for task in shown:
        assert task.deadline is not None, "the list has only tasks with a deadline"
        row = row_of(task, now, may_edit=access.may_change(task.user_id))
        by_day.setdefault(shown_day(task.deadline), []).append(row)
    days = []
    for number in range((after - span.first).days):
        day = span.first + timedelta(days=number)
        is_other = span.month is not None and day.month != span.month.month
        days.append({"day": day, "is_other": is_other, "rows": by_day.get(day, [])})
    return {"weeks": [days[at : at + 7] for at in range(0, len(days), 7)], "count": len(shown), "more": more}


places = Places("calendar")


@places.get("/{owner}/{project}/calendar")
async def calendar(visit: Visit) -> Response:
    """Show the due tasks of a project by month or week."""
    access = await visit.follow()
    span = span_of(visit)
    people = await logins_of(visit.database, access)
    return visit.page(
        "calendar/calendar.html",
        span=span,
        calendar=await read_calendar(visit, access, span),
        today=formats.today(),
        weekdays=formats.weekday_names(),
        given=defaultdict(str, paging.given(visit)),
        people={login: gettext("Tasks assigned to %(person)s", person=name) for login, name in people.items()},
        back=paging.with_query(visit),
    )


@places.post("/{owner}/{project}/calendar/{task_id}", action="task.edit")
async def move_deadline(visit: Visit) -> Response:
    """Move a task's deadline to another day at the same time of day."""
    access = await visit.access()
    edit = visit.form(TaskEdit, "deadline", project_id=access.repository.project_id)
    task_id, address = visit.path("task_id"), paging.project_address(visit, "calendar")
    before, after = await edit_task(visit, task_id, edit)
    day = None if after.deadline is None else day_name(shown_day(after.deadline))
    message = (
        gettext("“%(title)s” no longer has a due date.") if day is None else gettext("“%(title)s” is due on %(day)s.")
    )
    undo = undo_of(f"{address}/{task_id}", before, visit.fields)
    return visit.done(paging.back_to(visit, address), message % {"title": after.title, "day": day}, undo=undo)


routes = Routes(PAGES, "pages")
feed_places = Places("calendar_feeds")

PROJECT, ASSIGNED = "project", "assigned"
_FEED = "/{owner}/{project}/calendar/feed"


@routes.get("/calendar/{key}/calendar.ics")
async def page_calendar_feed(call: Call) -> Response:
    """Return the due tasks of a project or of a user as iCalendar, to anyone with the link."""
    user, project_id = await feeds.get_feed(call.database, call.path("key"))
    # Uses the owner's current rights. Apps poll, so denied requests are kept out of the audit log.
    actor = Actor(user, 0, "session", frozenset(policy.SCOPES), address=call.address)
    if project_id is not None:
        access = await find_access(call.database, actor, project_id)
        name, tasks = access.repository.title, await feeds.list_project_due(call.database, access, now_ms())
    else:
        name = gettext("Due dates for %(person)s", person=called(user))
        tasks = await feeds.list_own_due(call.database, user, now_ms())
    body = feeds.calendar_bytes(name, tasks, base=call.public_base)
    headers = {"Cache-Control": "private, no-cache", **disposition("calendar.ics")}
    return Response(body, headers=headers, media_type=feeds.MEDIA_TYPE)


@feed_places.get(_FEED)
async def show_feeds(visit: Visit) -> Response:
    return await _page(visit, await visit.access())


@feed_places.post(f"{_FEED}/renew", action="calendar_feed.create")
async def renew_feed(visit: Visit) -> Response:
    """Create a feed link in place of the current one. Only this response shows it."""
    visit.require_recent(paging.project_address(visit, "calendar", "feed"))
    access = await visit.access()
    repository_id = _chosen(visit, access)
    key = await visit.change(lambda write: feeds.create_feed(write, repository_id))
    address = f"{visit.call.public_base}/calendar/{key}/calendar.ics"
    return await _page(visit, access, address=address, made=visit.fields["feed"])


@feed_places.post(f"{_FEED}/end", action="calendar_feed.destroy")
async def end_feed(visit: Visit) -> Response:
    """Turn a feed link off."""
    access = await visit.access()
    repository_id = _chosen(visit, access)
    was_there = await visit.change(lambda write: feeds.delete_feed(write, repository_id))
    text = gettext("The link was turned off. Calendar apps that use it no longer receive updates.") if was_there else ""
    return visit.done(paging.project_address(visit, "calendar", "feed"), text)


async def _page(visit: Visit, access: Access, *, address: str = "", made: str = "") -> Response:
    """Show the page. If a feed was just created, `made` names it and `address` is its link."""
    of_project, assigned = await feeds.find_feeds(visit.database, visit.actor.user, access.repository.id)
    return visit.page(
        "calendar/feed.html",
        has_secret=bool(address),
        feeds=[(PROJECT, of_project), (ASSIGNED, assigned)],
        address=address,
        made=made,
    )


def _chosen(visit: Visit, access: Access) -> int | None:
    """Return the ID of the project for its feed, or None for the feed of assigned tasks. Raises `NotFound`."""
    which = visit.fields.get("feed")
    if which not in (PROJECT, ASSIGNED):
        raise NotFound()
    return access.repository.id if which == PROJECT else None
