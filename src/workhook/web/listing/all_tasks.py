"""`/tasks`: the tasks of all projects that the visitor sees, as a table. What is open comes first, by its deadline."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec import UnsetType

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.http import lists, parameters
from workhook.http.calls import Answer
from workhook.identity.queries import key_of
from workhook.web.frame import paging
from workhook.web.frame.across import ProjectOption, fill_page, project_options
from workhook.web.frame.names import Names
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.zones import reader_zone
from workhook.web.listing.view import ROWS, TaskRow, row_of, sort_links
from workhook.work.board.projects.listing import find_visible
from workhook.work.board.tasks.choices import PEOPLE_MAX
from workhook.work.board.tasks.schemas import Task
from workhook.work.history.across import tasks
from workhook.work.history.across.api import tasks_cursor
from workhook.work.history.across.people import list_all_people
from workhook.work.history.across.places import ME
from workhook.work.history.across.schemas import AllTasksQuery
from workhook.work.history.across.walks import AcrossPage

PATH = "/tasks"
_ALL = "all"
_NAMES = frozenset(each.encode_name for each in msgspec.structs.fields(AllTasksQuery)) - {"per_page", "timezone"}

places = Places("all_tasks")


class PlacedTask(NamedTuple):
    """A line of the list, and the address and title of its project."""

    row: TaskRow
    base: str
    project: str
    colors: Mapping[str, str]
    """The colours of labels, by their names."""


def _query_of(visit: Visit) -> AllTasksQuery:
    """The filters of the address; without any, what is open, by its deadline. Raises `Invalid`."""
    given = {"finished": "false", "sort": "deadline", **paging.given(visit)}
    if given["finished"] == _ALL:
        del given["finished"]
    query = parameters.gather(
        AllTasksQuery, {name: [value] for name, value in given.items() if name in _NAMES}, {"per_page": ROWS}
    )
    query.timezone = str(reader_zone())
    return query


@places.get(PATH)
async def all_tasks(visit: Visit) -> Answer:
    """Show the tasks of all projects as a table."""
    query, given = _query_of(visit), defaultdict(str, paging.given(visit))
    # What is in the archive is in the way of what there is to do, unless somebody asks for it.
    ask = partial(_find, visit, query, archived="project_id" in given)
    found, options, people = await asyncio.gather(
        fill_page(ask, tasks_cursor(query), ROWS + 1), project_options(visit), _people(visit, query)
    )
    page, headers = lists.page(
        visit.call, found.rows, query, lambda pair: pair[1], cut=found.cut, last_seen=found.last_seen
    )
    return visit.page(
        "listing/all.html",
        rows=await _placed(visit, [task for task, _ in page]),
        more=paging.next_page(headers),
        given=given,
        filtered=bool(set(given) & (_NAMES - {"sort", "cursor"})),
        first=paging.with_query(visit, cursor=None),
        sorts=sort_links(visit, otherwise="deadline"),
        projects=options,
        people=people,
        person=ME if key_of(given["assignee"]) == key_of(visit.actor.user.login) else given["assignee"],
        is_guest=_is_guest(options),
    )


async def _people(visit: Visit, query: AllTasksQuery) -> dict[str, str]:
    """The names of those whom the filter offers, by their logins: the visitor, who is `me`, and then the others."""
    archived = not isinstance(query.project_id, UnsetType)
    found = await list_all_people(visit.database, visit.actor, query, archived=archived, limit=PEOPLE_MAX)
    me = visit.actor.user
    names = Names([me, *found]).by_login
    return {ME: names.pop(me.login), **names}


async def _find(
    visit: Visit, query: AllTasksQuery, after: Sequence[object] | None, *, archived: bool
) -> AcrossPage[Task]:
    return await tasks.list_all_tasks(visit.database, visit.actor, query, after=after, archived=archived)


def _is_guest(options: Sequence[ProjectOption]) -> bool:
    return bool(options) and all(each.is_guest for each in options)


async def _placed(visit: Visit, listed: Sequence[Task]) -> list[PlacedTask]:
    projects = await find_visible(visit.database, visit.actor, {each.project.id for each in listed})
    now = now_ms()
    return [
        PlacedTask(
            row_of(task, now, may_edit=False), f"/{project.full_name}", project.title, json.decode(project.label_colors)
        )
        for task in listed
        if (project := projects.get(task.project.id))  # else it was lost meanwhile
    ]
