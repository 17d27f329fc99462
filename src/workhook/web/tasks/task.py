"""The page of a task and its forms, each of which changes one field."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC

from msgspec import UNSET

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.errors import Conflict, Fault, Invalid, Malformed, NotFound, say
from workhook.http.calls import Response
from workhook.http.parameters import TITLE_MAX_CHARS
from workhook.identity.context import Write
from workhook.web.files.view import icon_of
from workhook.web.frame.flash import Undo
from workhook.web.frame.markdown import Prose, find_named_tasks
from workhook.web.frame.names import Names
from workhook.web.frame.paging import back_to, project_address
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.sessions import safe_return_to
from workhook.web.frame.texts import gettext
from workhook.web.listing import BUSY, keep_time
from workhook.web.tasks.view import DONE, OPEN, digest, read_edit, read_task, says, typed_value, value_of
from workhook.work.board.tasks import actions, assignees, queries
from workhook.work.board.tasks.imported_fields import own_fields
from workhook.work.board.tasks.inputs import PLAIN_FIELDS, TaskCreate, TaskEdit
from workhook.work.board.tasks.queries import NUMBER_DIGITS, AccessedTask, find_numbered, find_related
from workhook.work.board.tasks.recurrence import occurrence_after
from workhook.work.board.tasks.schemas import TERMS, Task
from workhook.work.files.upload import limit_of
from workhook.work.kernel.access import Access
from workhook.work.kernel.day_bounds import find_zone
from workhook.work.time.timesheets import actions as timesheets_actions
from workhook.work.time.timesheets import queries as timer_queries
from workhook.work.time.timesheets.schemas import TimesheetCreate

places = Places("task")
FIELDS = {"title", "column_id", *PLAIN_FIELDS, *TERMS} - {"parent_id"}


class Changed(Conflict):
    """The field has changed since the page was rendered."""


async def task_at(visit: Visit) -> tuple[Access, Task]:
    """Return the task in the path. Raises `NotFound` if it is not in the path's project."""
    access = await visit.access()
    task_id, project_id = visit.path("task_id"), access.repository.project_id
    return access, await actions.get_task(visit.database, visit.actor, task_id, project_id=project_id)


@places.get("/{owner}/{project}/tasks/{task_id}")
async def task(visit: Visit) -> Response:
    """Show a task, or redirect from its number to its page."""
    number = visit.path("task_id")
    if not (number.isascii() and number.isdigit()):
        return await _show(visit)
    access, wanted = await visit.access(), int(number[: NUMBER_DIGITS + 1])
    found = await find_numbered(visit.database, access.repository.id, [wanted])
    if wanted not in found:
        raise NotFound()
    return visit.done(f"/{access.repository.full_name}/tasks/{found[wanted]}")


async def _show(visit: Visit, *, status: int = 200, conflict: str = "") -> Response:
    """Show a task.

    `conflict` names a field that someone else has changed; the page shows both the typed and the current value.
    """
    access = await visit.follow()
    after = visit.query_id("after") or 0
    shown = await read_task(visit.database, visit.actor, access, visit.path("task_id"), after)
    yours = visit.fields.get(conflict, "") if conflict else ""
    logins = [each.login for each in shown.people]
    texts = [shown.task.description, *(each.text for each in shown.comments)]
    tasks = await find_named_tasks(visit.database, access, texts)
    return visit.page(
        "tasks/task.html",
        status=status,
        access=access,
        shown=shown,
        conflict=conflict,
        yours=yours,
        task=shown.task,
        here=address(visit),
        people=Names(shown.people).by_login,
        names=shown.names,
        prose=await Prose(logins, visit.actor.user.login, tasks).prepare(texts),
        icon_of=icon_of,
        limit=limit_of(visit.call),
        link=f"{visit.call.public_base.removesuffix(visit.call.prefix)}{address(visit)}",
    )


@places.post("/{owner}/{project}/tasks/{task_id}/edit", action="task.edit")
async def edit_task(visit: Visit) -> Response:
    """Change one field of a task. `was` is the digest of the value that the page showed."""
    name = visit.fields.get("field", "")
    access = await visit.access()
    if name not in FIELDS or name not in visit.fields:
        raise Malformed("Problems parsing the form")
    if name in TERMS:
        access.require_not_client()  # no response may reveal whether a client guessed the rate
    edit = read_edit(visit, name, access.repository.project_id, access.repository.currency)
    if getattr(edit, name) is UNSET:
        raise Invalid(faults=[Fault(field=name, code="missing", message=say("{} must not be empty", name))])

    async def change(write: Write) -> tuple[Task, Task]:
        found = await actions.lock_task(write.tx, write.actor, visit.path("task_id"), edit)
        is_late = visit.fields.get("was", digest(found.task, name)) != digest(found.task, name)
        if is_late and not says(edit, name, found.task):
            raise Changed("Someone else changed this while you were editing.", code="changed")
        keep_time(visit, edit, found.task)
        return found.task, await actions.edit_task(write, found, edit)

    try:
        before, after = await visit.change(change, retry=BUSY)
    except Changed:
        await visit.load_frame()
        return await _show(visit, status=409, conflict=name)
    if value_of(before, name) == value_of(after, name):
        return visit.done(address(visit))
    typed = typed_value(name, value_of(before, name), access.repository.currency)
    undo = Undo(f"{address(visit)}/edit", {"field": name, name: typed, "was": digest(after, name)})
    message = gettext("The task was moved.") if name == "column_id" else gettext("Saved.")
    return visit.done(address(visit), message, undo=undo)


@places.post("/{owner}/{project}/tasks/{task_id}/labels", action="task.edit")
async def change_labels(visit: Visit) -> Response:
    """Add a label to a task or remove one."""
    return await _change_list(visit, "labels", lambda found: json.decode(found.labels))


@places.post("/{owner}/{project}/tasks/{task_id}/assignees", action="task.edit")
async def change_assignees(visit: Visit) -> Response:
    """Add an assignee to a task or remove one."""
    return await _change_list(visit, "assignees", lambda found: [each.login for each in found.assignees])


@places.post("/{owner}/{project}/tasks/{task_id}/checklist", action="task.edit")
async def change_checklist(visit: Visit) -> Response:
    """Add, tick, untick or remove a checklist item."""

    def changed(found: Task) -> dict[str, object]:
        sections: dict[str, dict[str, str]] = json.decode(found.sections)
        section, item, step = (visit.fields.get(name, "").strip() for name in ("section", "item", "step"))
        if not section or not item or step not in ("add", "tick", "untick", "remove"):
            raise Malformed("Problems parsing the form")
        items = sections.setdefault(section, {})
        if step == "remove":
            items.pop(item, None)
        elif step != "add" or item not in items:
            items[item] = DONE if step == "tick" else OPEN
        return {"sections": {name: each for name, each in sections.items() if each or name != section}}

    access = await visit.access()
    await _change(visit, access.repository.project_id, changed)
    return visit.done(f"{address(visit)}#checklists")


async def _change_list(visit: Visit, name: str, listed: Callable[[Task], list[str]]) -> Response:
    """Add a value to a list field of the task or remove one."""
    added, gone = visit.fields.get("add", "").strip(), visit.fields.get("remove")

    def changed(found: Task) -> dict[str, object]:
        after = dict.fromkeys([*listed(found), *([added] if added else [])])
        return {name: [each for each in after if each != gone]}

    access = await visit.access()
    await _change(visit, access.repository.project_id, changed)
    undo = Undo(f"{address(visit)}/{name}", {"add": gone}) if gone else None
    return visit.done(address(visit), gettext("“%(name)s” was removed.", name=gone) if gone else "", undo=undo)


async def _change(visit: Visit, project_id: str, changed: Callable[[Task], dict[str, object]]) -> None:
    """Lock the task and apply the fields that `changed` returns for it."""

    async def change(write: Write) -> None:
        found = await actions.lock_task(write.tx, write.actor, visit.path("task_id"), TaskEdit(project_id=project_id))
        seen = await assignees.visible_task(write.tx, found.access, found.task)
        await actions.edit_task(write, found, visit.form(TaskEdit, **changed(seen)))

    await visit.change(change, retry=BUSY)


@places.post("/{owner}/{project}/tasks/{task_id}/duplicate", makes=True, action="task.create")
async def duplicate_task(visit: Visit) -> Response:
    """Duplicate a task, right after the original."""
    access, found = await task_at(visit)
    may_set = {"hourly_rate": access.repository.role == "admin"}
    terms = {name: getattr(found, stored) for name, stored in TERMS.items() if may_set.get(name, True)}
    plain = {name: getattr(found, name) for name in PLAIN_FIELDS}
    parents = {found.parent_id} if found.parent_id else set[str]()
    related = await find_related(visit.database, access.repository.id, parents)
    zone = await find_zone(visit.database, access.repository.id) if found.repeat else UTC
    plain["parent_id"] = found.parent_id if found.parent_id in related else None
    if occurrence_after(found, now_ms(), zone) is None:
        plain["repeat"] = None
    create = TaskCreate(
        title=gettext("Copy of %(title)s", title=found.title)[:TITLE_MAX_CHARS],
        position=found.position + 1,
        fields=own_fields(json.decode(found.fields)),
        sections=json.decode(found.sections),
        assignees=[each.login for each in found.assignees],
        labels=json.decode(found.labels),
        **terms,
        **plain,
    )
    made = await visit.change(lambda write: actions.create_task(write, found.column.id, create), retry=BUSY)
    location = f"/{access.repository.full_name}/tasks/{made.id}"
    return visit.done(location, gettext("The task was duplicated. This is the copy."), undo=Undo(f"{location}/delete"))


@places.post("/{owner}/{project}/tasks/{task_id}/delete", action="task.delete")
async def delete_task(visit: Visit) -> Response:
    """Move a task to the trash."""
    access = await visit.access()

    async def delete(write: Write) -> AccessedTask:
        found = await queries.lock_to_move(write.tx, write.actor, visit.path("task_id"), None)
        actions.require_project(found.access, access.repository.project_id)
        await actions.delete_task(write, found)
        return found

    gone = (await visit.change(delete, retry=BUSY)).task
    message = gettext("“%(title)s” was deleted.", title=gone.title)
    return visit.done(f"/{access.repository.full_name}", message, undo=Undo(f"{address(visit)}/restore"))


@places.post("/{owner}/{project}/tasks/{task_id}/restore", action="task.restore")
async def restore_task(visit: Visit) -> Response:
    """Restore a deleted task."""
    project_id = (await visit.access()).repository.project_id
    task_id = visit.path("task_id")
    await visit.change(lambda write: actions.restore_task(write, task_id, project_id=project_id), retry=BUSY)
    return visit.done(address(visit))


def address(visit: Visit) -> str:
    """Return the address of the task's page."""
    return f"/{visit.path('owner')}/{visit.path('project')}/tasks/{visit.path('task_id')}"


# --- timers -----------------------------------------------------------------------------------------------------------

timer_places = Places("timers")

_STEPS = {
    "pause": timesheets_actions.pause_timesheet,
    "resume": timesheets_actions.resume_timesheet,
    "finish": timesheets_actions.finish_timesheet,
}


@timer_places.post("/{owner}/{project}/tasks/{task_id}/timer", makes=True, action="timesheet.create")
async def start_timer(visit: Visit) -> Response:
    """Start a timer on a task, which pauses the visitor's other timer. Forms with `back` return to the board."""
    access = await visit.access()
    access.require_not_client()
    create = TimesheetCreate(task_id=visit.path("task_id"))
    await visit.change(lambda write: timesheets_actions.create_timesheet(write, access.repository.project_id, create))
    return visit.done(back_to(visit, project_address(visit)) if "back" in visit.fields else address(visit))


@timer_places.post("/{owner}/{project}/timesheets/{timesheet_id}/{step}", action="timesheet.edit")
async def change_timer(visit: Visit) -> Response:
    """Pause, resume or finish a timer, and return to the page that sent the form."""
    access = await visit.access()
    step, timesheet_id = _STEPS.get(visit.path("step")), visit.path("timesheet_id")
    found, _ = await timer_queries.find_timesheet(visit.database, visit.actor, timesheet_id)
    if step is None or found.repository.id != access.repository.id:
        raise NotFound()
    await visit.change(lambda write: step(write, timesheet_id))
    return visit.done(safe_return_to(visit.fields.get("back")))
