"""The forms of what a task waits for, and the search for such a task: a part of its page, or a page without scripts."""

from __future__ import annotations

from workhook.core.errors import Malformed
from workhook.http.calls import Answer
from workhook.http.endpoints import Retry
from workhook.identity.context import Write
from workhook.web.frame.flash import Undo
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.tasks.task import address
from workhook.work.board.tasks import actions, listing, queries
from workhook.work.board.tasks.inputs import TaskEdit
from workhook.work.board.tasks.schemas import Task
from workhook.work.history.search.match import QUERY_MAX_CHARS, words_of

places = Places("task_waits")
BUSY = Retry(queries.Busy, 20)
FOUND_MAX = 20


@places.get("/{owner}/{project}/tasks/{task_id}/waits")
async def find_blockers(visit: Visit) -> Answer:
    """Show open tasks that have the words `q` and that the task could wait for."""
    access = await visit.access()
    task_id = visit.path("task_id")
    task = await actions.get_task(visit.database, visit.actor, task_id, project_id=access.repository.project_id)
    asked = visit.query("q").strip()[:QUERY_MAX_CHARS]
    found: list[Task] = []
    if words := words_of(asked):
        filters = {"q": words, "finished": False}
        page = await listing.list_tasks(visit.database, access, filters, sort="id", after=None, limit=FOUND_MAX)
        found = [each for each, _ in page.tasks if each.id != task.id and each.id not in task.blocked_by]
    return visit.page("tasks/waits.html", access=access, task=task, here=address(visit), q=asked, found=found)


@places.post("/{owner}/{project}/tasks/{task_id}/waits")
async def change_blockers(visit: Visit) -> Answer:
    """Let a task wait for another one (`add`), or not any more (`remove`)."""
    access = await visit.access()
    added, gone = visit.fields.get("add", ""), visit.fields.get("remove", "")
    if not added and not gone:
        raise Malformed("Problems parsing the form")
    plain = TaskEdit(project_id=access.repository.project_id)

    async def change(write: Write) -> None:
        found = await actions.lock_task(write.tx, write.actor, visit.path("task_id"), plain)
        wanted = {*found.task.blocked_by, *([added] if added else [])} - {gone}
        await actions.edit_task(write, found, visit.form(TaskEdit, blocked_by=sorted(wanted)))

    await visit.change(change, retry=BUSY)
    if not gone:
        return visit.done(f"{address(visit)}#waits")
    return visit.done(
        f"{address(visit)}#waits",
        gettext("The task does not wait for it any more."),
        undo=Undo(f"{address(visit)}/waits", {"add": gone}),
    )
