"""How a description or comment will look: a part of the page that it is written in, or a page without scripts."""

from __future__ import annotations

from workhook.core.errors import Forbidden, Malformed
from workhook.http.calls import Answer
from workhook.web.frame.markdown import Prose, find_named_tasks
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import text
from workhook.web.tasks.task import address
from workhook.work.board.tasks import choices
from workhook.work.board.tasks.actions import get_task

places = Places("task_preview")
DESCRIPTION, NEW = "description", "new"


@places.post("/{owner}/{project}/tasks/{task_id}/preview")
async def preview(visit: Visit) -> Answer:
    """Show what was written, and the form to save it. Nothing is changed."""
    access = await visit.access()
    task = await get_task(visit.database, visit.actor, visit.path("task_id"), project_id=access.repository.project_id)
    if not access.may_write:
        raise Forbidden(text("You cannot write in this project."), code="missing_role")
    key, here = visit.fields.get("preview", ""), address(visit)
    name = "description" if key == DESCRIPTION else "text"
    people = await choices.list_people(visit.database, access)
    tasks = await find_named_tasks(visit.database, access, [visit.fields.get(name)])
    await visit.load_frame()
    return visit.page(
        "tasks/preview.html",
        access=access,
        task=task,
        here=here,
        key=key,
        field=name,
        action=_action(here, key),
        text=visit.fields.get(name, ""),
        private="private" in visit.fields,
        was=visit.fields.get("was", ""),
        prose=await Prose([each.login for each in people], visit.actor.user.login, tasks).prepare(
            [visit.fields.get(name)]
        ),
    )


def _action(here: str, key: str) -> str:
    """Where the form leads to that saves the text. Raises `Malformed`."""
    if key in (DESCRIPTION, NEW):
        return f"{here}/{'edit' if key == DESCRIPTION else 'comments'}"
    if not (key.isascii() and key.isdigit()):
        raise Malformed("Problems parsing the form")
    return f"{here}/comments/{key}/edit"
