"""`/`: what is assigned to somebody, what runs, what they are asked to pay, where they are mentioned, their projects.
One query a block.

Who is a client everywhere, and nothing else, is at home here too: the words are for somebody who asks for work.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from workhook.core.clock import now_ms
from workhook.http.calls import Answer, Call
from workhook.identity import members
from workhook.storage.pages import Page
from workhook.web.frame.places import Visit, visit_of
from workhook.web.frame.sessions import sign_in_redirect, signed_in
from workhook.web.frame.zones import reader_zone
from workhook.web.people.invited import find_invitations
from workhook.work.board.projects.listing import list_newest
from workhook.work.board.tasks.assigned import AssignedTask, list_assigned
from workhook.work.board.tasks.deadlines import Urgency, urgency
from workhook.work.discussion.mentions.queries import list_mentions
from workhook.work.money.invoices.due import list_due
from workhook.work.time.timesheets import queries as timesheets
from workhook.work.time.timesheets.rules import elapsed_ms

TASKS_MAX, PROJECTS_MAX, INVOICES_MAX, MENTIONS_MAX, ORGANIZATIONS_MAX = 100, 60, 20, 20, 5


class Due(NamedTuple):
    """An assigned task, and how urgent it is."""

    task: AssignedTask
    state: Urgency


def _due(task: AssignedTask, now: int) -> Due:
    return Due(task, urgency(task.deadline, is_completed=False, now=now, zone=reader_zone()))


async def home(call: Call) -> Answer:
    session = await signed_in(call)
    return sign_in_redirect(call) if session is None else await my_work(visit_of(call, session))


async def my_work(visit: Visit) -> Answer:
    """Show what somebody has to do."""
    reader, user, now = visit.database, visit.actor.user, now_ms()
    (assigned, due, mentions, _), running, projects, invitations, (own, _) = await asyncio.gather(
        asyncio.gather(
            list_assigned(reader, user, TASKS_MAX + 1),
            list_due(reader, user, INVOICES_MAX + 1),
            list_mentions(reader, user, MENTIONS_MAX),
            visit.load_frame(),
        ),
        timesheets.find_running(reader, user),
        list_newest(reader, visit.actor, limit=PROJECTS_MAX + 1),
        find_invitations(visit),
        members.list_own(reader, visit.actor, Page(ORGANIZATIONS_MAX)),
    )
    return visit.page(
        "home/my_work.html",
        tasks=[_due(each, now) for each in assigned[:TASKS_MAX]],
        more_tasks=len(assigned) > TASKS_MAX,
        running=running,
        elapsed=elapsed_ms(running.times, now) if running else 0,
        projects=[each for each in projects[:PROJECTS_MAX] if not each.archive],
        invitations=invitations,
        invoices=due[:INVOICES_MAX],
        more_invoices=len(due) > INVOICES_MAX,
        mentions=mentions,
        now=now,
        may_make=bool(projects or own),
        organizations=[each.account for each in own],
        is_guest=bool(projects) and all(each.repository.role is None for each in projects),
        more_projects=len(projects) > PROJECTS_MAX,
    )
