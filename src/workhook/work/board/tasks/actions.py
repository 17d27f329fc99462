"""Create, edit, move, delete and restore tasks.

Everyone with write access to a project can change all of its tasks. A client can create tasks, and change and delete
those it created.
"""

from __future__ import annotations

from datetime import UTC, tzinfo
from decimal import Decimal
from types import NoneType
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from workhook.core import json
from workhook.core.errors import Forbidden, NotFound, say
from workhook.core.ids import new_id
from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.storage import Reader, Transaction
from workhook.work.board.tasks import assignees, queries
from workhook.work.board.tasks.column_order import Step
from workhook.work.board.tasks.imported_fields import source_of
from workhook.work.board.tasks.inputs import PLAIN_FIELDS, TaskContent, TaskCreate, TaskEdit
from workhook.work.board.tasks.queries import AccessedTask, LockedColumn, MovableTask, TaskChange
from workhook.work.board.tasks.recurrence import require_next
from workhook.work.board.tasks.schemas import NO_SUBTASKS, TERMS, Assignees, CommitShape, Task
from workhook.work.board.tasks.writer import TaskWriter, change_orders, completed_at, touched, write_rows
from workhook.work.kernel import questions
from workhook.work.kernel.access import Access
from workhook.work.kernel.day_bounds import find_zone
from workhook.work.kernel.record_events import publish_event
from workhook.work.kernel.schemas import if_set, rate_minor_of


async def get_task(reader: Reader, actor: Actor, task_id: str, *, project_id: str | UnsetType = UNSET) -> Task:
    """Return a task as the caller sees it. Raises `NotFound` if it is missing or outside the project `project_id`."""
    found = await queries.find_task(reader, actor, task_id)
    require_project(found.access, project_id)
    return await assignees.visible_task(reader, found.access, found.task)


async def lock_task(tx: Transaction, actor: Actor, task_id: str, edit: TaskEdit) -> AccessedTask:
    """Lock a task for this edit, and the affected columns if it may move. Raises `NotFound` or `Invalid`."""
    column_id = if_set(edit.column_id)
    if column_id is None and isinstance(edit.position, UnsetType):
        found = await queries.lock_task(tx, actor, task_id)
    else:
        found = await queries.lock_to_move(tx, actor, task_id, column_id)
    require_project(found.access, edit.project_id)
    return found


async def create_task(write: Write, column_id: str, create: TaskCreate) -> Task:
    """Create a task and return it as the caller sees it.

    Raises `NotFound`, `Forbidden`, `Conflict` or `Invalid`.
    """
    access, target = await queries.lock_column(write.tx, write.actor, column_id)
    require_project(access, create.project_id)
    access.require_writable()
    zone = await find_zone(write.tx, access.repository.id) if create.repeat else UTC
    writer = TaskWriter(write)
    people = await _people(write.tx, access, create)
    task = build_task(access, target, create.title, create, people, write.now, zone)
    change = writer.create(access, target, task, if_set(create.position))
    await writer.write()
    return await assignees.visible_task(write.tx, access, change.after)


async def edit_task(write: Write, found: AccessedTask, edit: TaskEdit, *, commit: CommitShape | None = None) -> Task:
    """Update a task and return it as the caller sees it.

    An edit that changes nothing writes nothing and publishes no event. `found` is the result of `lock_task`; `commit`
    is the commit whose message closes the task, for the event. Raises `Forbidden`, `Conflict` or `Invalid`.
    """
    access, before = found.access, found.task
    require_changeable(access, before)
    zone = await find_zone(write.tx, access.repository.id) if before.repeat or edit.repeat else UTC
    people = await _people(write.tx, access, edit, before.assignees)
    writer = TaskWriter(write, {access.repository.id: zone})
    change = writer.change(found)
    change.commit = commit
    change.after = apply_edit(access, before, if_set(edit.title, before.title), edit, people, write.now, zone)
    if isinstance(found, MovableTask):
        writer.move(change, found.source, found.target, if_set(edit.position))
    await writer.write()
    return await assignees.visible_task(write.tx, access, change.after)


async def delete_task(write: Write, found: MovableTask) -> None:
    """Move a task to the trash, from which it can be restored for a while, and finish its timers.

    `found` is the result of `queries.lock_to_move`. Raises `Forbidden` or `Conflict`.
    """
    require_changeable(found.access, found.task)
    writer = TaskWriter(write)
    writer.delete(writer.change(found), found.source, "The task")
    await writer.write()


async def restore_task(write: Write, task_id: str, *, project_id: str | UnsetType) -> Task:
    """Restore a task to the end of its column, or of the project's first column if its own was deleted.

    The published event is `created`. A task that is not in the trash is left unchanged. Raises `NotFound`, `Forbidden`
    or `Conflict`.
    """
    found = await queries.lock_to_restore(write.tx, write.actor, task_id)
    if found is None:
        return await get_task(write.tx, write.actor, task_id, project_id=project_id)
    access, before, target = found
    require_project(access, project_id)
    require_changeable(access, before)
    done = completed_at(target, before.completed_at, write.now)
    task = msgspec.structs.replace(touched(before, write.now), completed_at=done)
    column_id = target.column.id
    steps = {column_id: [Step("insert", task.id)]}
    orders = await change_orders(write.tx, steps, {column_id: target}, {})
    await write_rows(write.tx, [TaskChange(access, before, task)], orders)
    await publish_event(write, access.repository, "task", "created", to_response(task))
    if target.completes:
        await questions.tasks_completed(write, access, [task.id])
    return await assignees.visible_task(write.tx, access, task)


# --- shared with bulk operations --------------------------------------------------------------------------------------


def require_project(access: Access, project_id: str | UnsetType) -> None:
    """Raise `NotFound` if `project_id` is given and is not the task's project."""
    if project_id not in (UNSET, access.repository.project_id):
        raise NotFound()


def require_changeable(access: Access, task: Task) -> None:
    """Raise `Forbidden` or `Conflict` unless the caller may change the task now."""
    access.require_writable()
    access.require_own(task.user_id, "change or delete")


def build_task(
    access: Access,
    target: LockedColumn,
    title: str,
    content: TaskContent,
    people: Assignees | UnsetType,
    now: int,
    zone: tzinfo,
) -> Task:
    """Build a new task. `zone` is the time zone of its recurrence rule. Raises `Forbidden` or `Invalid`."""
    task = _with_content(access, build_blank_task(access, target, new_id("tsk"), title, now), content, people)
    require_next(task, now, zone)
    return task


_NULLABLE = [name for name, kind in get_type_hints(Task).items() if NoneType in get_args(kind)]


def build_blank_task(access: Access, target: LockedColumn, task_id: str, title: str, now: int) -> Task:
    """Build a task that has only a title. Its number is 0 until it is written."""
    known: dict[str, Any] = {
        "id": task_id,
        "number": 0,
        "title": title,
        "position": 0,
        "fields": "{}",
        "sections": "{}",
        "project": queries.project_of(access),
        "column": target.column,
        "assignees": (),
        "labels": "[]",
        "subtasks": NO_SUBTASKS,
        "blocked_by": (),
        "blocked": False,
        "open_blockers": (),
        "completed_at": completed_at(target, None, now),
        "created_at": now,
        "updated_at": now,
        "user_id": access.user.id,
    }
    return Task(**{**dict.fromkeys(_NULLABLE), **known})


def apply_edit(
    access: Access,
    before: Task,
    title: str,
    content: TaskContent,
    people: Assignees | UnsetType,
    now: int,
    zone: tzinfo,
) -> Task:
    """Return the task with its new content, at its old position.

    `zone` is the time zone of its recurrence rule. Raises `Forbidden` or `Invalid`.
    """
    after = msgspec.structs.replace(_with_content(access, before, content, people), title=title)
    if (after.repeat, after.deadline) != (before.repeat, before.deadline):
        after = msgspec.structs.replace(after, repeat_since=None)
    if after.repeat != before.repeat:
        require_next(after, now, zone)
    return after


def _with_content(access: Access, task: Task, content: TaskContent, people: Assignees | UnsetType) -> Task:
    plain = {name: value for name in PLAIN_FIELDS if (value := getattr(content, name)) is not UNSET}
    if terms := {TERMS[name]: value for name in TERMS if (value := getattr(content, name)) is not UNSET}:
        plain |= _allowed_terms(access, task, content.hourly_rate, terms)
    fields, labels, blocked_by = content.fields, content.labels, content.blocked_by
    if access.is_client and fields is not UNSET:  # an edit by a client keeps the fields that are hidden from it
        hidden = {name: value for name, value in json.decode(task.fields).items() if source_of(name)}
        fields = {**hidden, **(fields or {})}
    if isinstance(labels, list):
        labels = list(dict.fromkeys(labels))
    return msgspec.structs.replace(
        task,
        **plain,
        fields=_json_text(fields, task.fields, {}),
        sections=_json_text(content.sections, task.sections, {}),
        labels=_json_text(labels, task.labels, []),
        assignees=if_set(people, task.assignees),
        blocked_by=task.blocked_by if blocked_by is UNSET else tuple(sorted(set(blocked_by or ()))),
    )


def _allowed_terms(
    access: Access, task: Task, hourly_rate: Decimal | UnsetType | None, terms: dict[str, object]
) -> dict[str, object]:
    """Return the entries of `terms` that the caller may change. Raises `Forbidden` or `Invalid`."""
    if access.is_client:  # clients see null everywhere, so sending null back must not clear anything
        if any(value is not None for value in terms.values()):
            access.require_member("set the hourly_rate, billable, or estimate of a task")
        return {}
    if isinstance(hourly_rate, Decimal):
        terms["hourly_rate_minor"] = rate_minor_of(hourly_rate, access.repository.currency, "hourly_rate")
    rate = terms.get("hourly_rate_minor", task.hourly_rate_minor)
    if rate != task.hourly_rate_minor and access.repository.role != "admin":
        name = access.repository.full_name
        message = say("You need the admin role in the project {} to {}.", name, "set a task's hourly_rate")
        raise Forbidden(message, code="missing_role")
    return terms


def _json_text(value: object, stored: str, empty: object) -> str:
    """Encode the value as JSON; None clears it. Keep the stored text if it differs only in the order of keys."""
    if value is UNSET:
        return stored
    wanted = empty if value is None else value
    return stored if json.decode(stored) == wanted else json.encode_text(wanted)


async def _people(
    tx: Transaction, access: Access, content: TaskContent, before: Assignees = ()
) -> Assignees | UnsetType:
    """Return the new assignees. `before` are the current ones.

    Raises `Invalid` with the names of users who cannot see the project.
    """
    if isinstance(content.assignees, UnsetType):
        return UNSET
    usernames = content.assignees or []
    return assignees.resolve_assignees(await assignees.find_people(tx, access, usernames, before), usernames, before)
