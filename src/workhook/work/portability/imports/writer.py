"""Writing of one batch of a plan: columns, tasks and comments, each with its event and its link to the original."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import msgspec

from workhook.core import json
from workhook.core.errors import Invalid
from workhook.core.ids import new_id
from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.identity.schemas import Account, Actor
from workhook.storage import Transaction
from workhook.work.board.columns import ColumnCreate, add_column
from workhook.work.board.tasks import relations
from workhook.work.board.tasks.actions import build_blank_task
from workhook.work.board.tasks.assignees import find_people
from workhook.work.board.tasks.queries import LockedColumn, TaskChange, lock_column
from workhook.work.board.tasks.schemas import Task
from workhook.work.board.tasks.writer import TaskWriter
from workhook.work.discussion import actions as comments
from workhook.work.discussion.schemas import CommentedTask, TaskComment
from workhook.work.kernel.access import Access
from workhook.work.kernel.people import person_to_response
from workhook.work.kernel.record_events import RecordEvent, publish_events
from workhook.work.portability.imports.diff import Remaining, forget_links, insert_link
from workhook.work.portability.imports.people import People, add_strangers_field, insert_unmatched, rows_of
from workhook.work.portability.imports.plan import (
    ImportPlan,
    Person,
    PlannedColumn,
    PlannedComment,
    PlannedTask,
    fingerprint,
)
from workhook.work.portability.imports.texts import title_of

Progress = Callable[[str, int, int], None]
"""A callback that receives the step, its progress and its total."""


class Import(msgspec.Struct, frozen=True):
    """A plan, the organization that receives it, and the importer. `base` is the start of links in events.

    If `keeps_authors` is true, comments belong to the members who wrote them. Only the server's operator may choose
    that, because anyone can forge an export. Otherwise comments belong to the importer and show the author's name.
    """

    plan: ImportPlan
    organization: Account
    actor: Actor
    people: People
    base: str
    keeps_authors: bool = True
    hint: str = "use --member NAME=LOGIN to match people"


class BatchWriter:
    def __init__(self, tx: Transaction, task_import: Import, access: Access, progress: Progress) -> None:
        self._tx = tx
        self._this = task_import
        self.access = access
        self._progress = progress
        self._context = Write(tx, task_import.actor, task_import.base)
        self._links: list[dict[str, str]] = []
        self._ids: dict[str, str] = {}  # existing tasks, by key
        self.alone: list[str] = []  # titles of subtasks without their parent

    async def write(self, rest: Remaining) -> None:
        task_import, source = self._this, self._this.plan.source
        await forget_links(self._tx, task_import.organization.id, source, rest.recreated_columns)
        self._ids = dict(rest.ids)
        if rest.repository is None:
            self._link("project", task_import.plan.key, self.access.repository.project_id, "")
        column_ids = rest.columns | await self._columns(rest.new_columns)
        made = await self._tasks(rest.new_tasks, column_ids)
        on_new = [
            (CommentedTask(task.id, task.title), comment)
            for task, planned in zip(made, rest.new_tasks, strict=True)
            for comment in planned.comments
        ]
        await self._comments([*rest.comments, *on_new])
        ids = {"account_id": task_import.organization.id, "source": source, "repository_id": self.access.repository.id}
        await self._tx.execute_many(insert_link, [{**ids, **each} for each in self._links])

    def _link(self, kind: str, key: str, internal_id: str, mark: str) -> None:
        self._links.append({"kind": kind, "external_id": key, "internal_id": internal_id, "fingerprint": mark})

    async def _columns(self, wanted: Sequence[PlannedColumn]) -> dict[str, str]:
        """Create the columns, and return their IDs by key."""
        made = {}
        for number, each in enumerate(wanted, 1):
            create = ColumnCreate(title=each.title, stage=each.stage, finished=each.finished)
            column = await add_column(self._context, self.access.repository.project_id, create)
            made[each.key] = column.id
            self._link("column", each.key, column.id, fingerprint(each))
            self._progress("columns", number, len(wanted))
        return made

    async def _tasks(self, wanted: Sequence[PlannedTask], column_ids: Mapping[str, str]) -> list[Task]:
        targets = {}
        used = {each.column_key: column_ids[each.column_key] for each in wanted}
        for key, column_id in sorted(used.items(), key=lambda item: item[1]):  # in the usual locking order
            _, targets[key] = await lock_column(self._tx, self._this.actor, column_id)
        found = (self._this.people.find(each, self._this.plan.source) for task in wanted for each in task.members)
        logins = {each.login for each in found if each is not None}
        people = (await find_people(self._tx, self.access, logins)).by_name
        made = await self._append(wanted, targets, {each.id for each in people.values()})
        for number, (planned, task) in enumerate(zip(wanted, made, strict=True), 1):
            self._link("task", planned.key, task.id, fingerprint(planned))
            self._progress("tasks", number, len(wanted))
        return made

    async def _append(
        self, wanted: Sequence[PlannedTask], targets: Mapping[str, LockedColumn], seeing: Collection[int]
    ) -> list[Task]:
        """Insert tasks at the ends of their columns with few statements.

        `seeing` contains the IDs of assigned people who can see the project. Returns the tasks in the order of
        `wanted`, which is also the sort order of their IDs.
        """
        task_ids = sorted(new_id("tsk") for _ in wanted)
        ids = {**self._ids, **{each.key: task_id for task_id, each in zip(task_ids, wanted, strict=True)}}
        writer = TaskWriter(self._context, notify=False)
        for task_id, each in zip(task_ids, wanted, strict=True):
            target = targets[each.column_key]
            change = writer.create(self.access, target, self._task(target, task_id, each, seeing), None)
            parent_id = ids.get(each.parent_key) if each.parent_key else None
            change.after = msgspec.structs.replace(change.after, parent_id=parent_id)
        await self._settle(list(writer.changes.values()))
        await writer.write(check_relations=False)
        unmatched = [
            {"repository_id": self.access.repository.id, **row}
            for task_id, planned in zip(task_ids, wanted, strict=True)
            for row in rows_of(task_id, self._assigned(planned, seeing)[1], self._this.plan.source)
        ]
        await self._tx.execute_many(insert_unmatched, unmatched)
        return [each.after for each in writer.changes.values()]

    def _assigned(self, planned: PlannedTask, seeing: Collection[int]) -> tuple[list[Account], list[Person]]:
        """Return the assignees, oldest account first, and the strangers: people without an account or access."""
        known = [self._this.people.find(each, self._this.plan.source) for each in planned.members]
        assignees = {each.id: each for each in known if each is not None and each.id in seeing}
        strangers = [
            member
            for member, account in zip(planned.members, known, strict=True)
            if account is None or account.id not in seeing
        ]
        return [assignees[account_id] for account_id in sorted(assignees)], strangers

    async def _settle(self, made: Sequence[TaskChange]) -> None:
        """Remove parents that cannot have these subtasks."""
        new_ids = {each.after.id for each in made}
        parented = [each for each in made if each.after.parent_id and each.after.parent_id not in new_ids]
        for at, each in enumerate(parented):
            each.named = partial("{}.{}".format, at)
        try:
            await relations.check_relations(self._tx, parented)
        except Invalid as problem:
            for at in sorted({int((fault.field or "").partition(".")[0]) for fault in problem.faults}):
                alone = parented[at]
                self.alone.append(alone.after.title)
                alone.after = msgspec.structs.replace(alone.after, parent_id=None)

    def _task(self, target: LockedColumn, task_id: str, planned: PlannedTask, seeing: Collection[int]) -> Task:
        now = self._context.now
        assignees, strangers = self._assigned(planned, seeing)
        fields = add_strangers_field(planned, strangers, self._this.plan.source)
        return msgspec.structs.replace(
            build_blank_task(self.access, target, task_id, planned.title, now),
            description=planned.description,
            deadline=planned.deadline,
            priority=planned.priority,
            estimate_ms=planned.estimate_ms,
            **planned.more,
            fields=json.encode_text(fields),
            sections=json.encode_text(planned.sections),
            labels=json.encode_text(planned.labels),
            assignees=tuple(map(person_to_response, assignees)),
            completed_at=min(planned.finished_at or now, now) if planned.finished or target.completes else None,
            created_at=min(planned.created_at or now, now),
        )

    async def _comments(self, wanted: Sequence[tuple[CommentedTask, PlannedComment]]) -> None:
        records = []
        authors = self._this.people if self._this.keeps_authors else People((), {})
        for number, (task, planned) in enumerate(wanted, 1):
            found = authors.find(planned.author, self._this.plan.source)
            author, name = found or self.access.user, None if found else title_of(planned.author.display_name)
            at = min(planned.created_at or self._context.now, self._context.now)
            places = {"task_id": task.id, "repository_id": self.access.repository.id, "user_id": author.id}
            new = TaskComment(0, planned.text, False, task, person_to_response(author), at, at, name)
            comment = await comments.insert(self._tx, new, **places)
            self._link("task_comment", planned.key, str(comment.id), fingerprint(planned))
            records.append(to_response(comment))
            self._progress("comments", number, len(wanted))
        created = [RecordEvent(self.access.repository, "task_comment", "created", each) for each in records]
        await publish_events(self._context, created)
