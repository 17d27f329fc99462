"""The history of a task, as a frame of its page or, without JavaScript, as a page."""

from __future__ import annotations

from typing import Any

from workhook.core import json
from workhook.events.payloads import to_show
from workhook.http.calls import Response
from workhook.storage import Row
from workhook.web.activity import ActivityEntry, ProjectNames, found_in, mention_sentence, sentence
from workhook.web.frame.names import called, logins_of
from workhook.web.frame.places import Places, Visit
from workhook.web.tasks.task import address, task_at
from workhook.work.board import columns
from workhook.work.board.tasks.schemas import Task
from workhook.work.history.activity.task_history import mentions_task, prepare_mentions, read_task_history
from workhook.work.kernel.people import person_of_row

places = Places("task_history")
ROWS = 30


@places.get("/{owner}/{project}/tasks/{task_id}/history")
async def task_history(visit: Visit) -> Response:
    """Show the events of a task, newest first. Not for clients, because it would reveal what is hidden from them."""
    access, task = await task_at(visit)
    access.require_not_client()
    before = visit.query_id("before")
    rows, more = await read_task_history(visit.database, access, task, before=before, limit=ROWS)
    titles = {each.id: each.title for each in await columns.list_board_columns(visit.database, access.repository.id)}
    people = await logins_of(visit.database, access)
    place = ProjectNames(f"/{access.repository.full_name}", titles, people)
    payloads = [json.decode_stored(to_show(row["payload"])) for row in rows]
    for row, payload in zip(rows, payloads, strict=True):
        if not row["published"]:
            await prepare_mentions(row["name"], payload, task.number)
    entries = [_entry(place, task, row, payload) for row, payload in zip(rows, payloads, strict=True)]
    return visit.page(
        "tasks/history.html",
        access=access,
        task=task,
        here=address(visit),
        entries=[entry for entry in entries if entry is not None],
        more=more,
        is_later=before is not None,
    )


def _entry(place: ProjectNames, task: Task, row: Row, payload: Any) -> ActivityEntry | None:
    """Return the entry of an event, or None if the event neither is about the task nor mentions it."""
    event, who = row["name"], person_of_row(row) if row["user_id"] is not None else None
    about = found_in(payload, "task", "id") if event == "task" else found_in(payload, event, "task", "id")
    named, published = called(who) if who else None, bool(row["published"])
    if about == task.id:
        words = sentence(place, named, event, row["action"], payload, published=published, among_itself=True)
    elif not published and mentions_task(event, payload, task.number):
        words = mention_sentence(place, named, event, payload)
    else:
        return None
    return ActivityEntry(row["id"], who, words, event, row["action"], row["created_at"])
