"""Fills an empty database: first the few rows that all others reference, then those, several thousand at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from bench.filling import rows
from bench.filling.plan import COLUMNS, IN_BOTH, IN_BUCKET, ORGANIZATIONS, OWNER, PEOPLE, PROJECTS, RowCounts
from workhook.core import json
from workhook.core.clock import DAY_MS, now_ms
from workhook.core.ids import new_token
from workhook.events.tables import events
from workhook.hooks.tables import dispatches, hooks, lanes
from workhook.identity.policy import SCOPES
from workhook.identity.tables import accounts, administrators, collaborators, invitations, memberships, projects, tokens
from workhook.identity.tokens.issue import CLASSIC, digest_of
from workhook.storage import Database
from workhook.storage.metadata import bigint_param, insert_into
from workhook.work.board.tasks.schemas import columns, task_numbers
from workhook.work.discussion.schemas import file_comments
from workhook.work.files.schemas import folders
from workhook.work.kernel.tables import clients
from workhook.work.money.services.schemas import services

CHUNK = 10_000
MORE_HOOKS = 200  # of the last repository; none of their events ever occurs
_HOOK_CONFIG = {"url": rows.URL, "content_type": "json", "insecure_ssl": "0"}

Progress = Callable[[str, int, int], None]

_account_ids = sa.select(accounts.c.id, accounts.c.login).order_by(accounts.c.id)
_project_id = sa.select(projects.c.repository_id).where(projects.c.id == sa.bindparam("id"))
_hook_ids = (
    sa.select(hooks.c.id)
    .where(hooks.c.account_id.in_([bigint_param("acme"), bigint_param("globex")]))
    .order_by(hooks.c.id)
)
_first_ids = {
    "event_offset": sa.select(sa.func.coalesce(sa.func.min(events.c.id), 1)),
    "dispatch_offset": sa.select(sa.func.coalesce(sa.func.min(dispatches.c.id), 1)),
    "comment_offset": sa.select(sa.func.coalesce(sa.func.min(file_comments.c.id), 1)),
}


class Batch(NamedTuple):
    """Rows of one table with consecutive numbers starting at `first`.

    `offset` names the parameter for the first row's ID minus one.
    """

    what: str
    statement: sa.Insert
    rows: int
    first: int = 1
    offset: str | None = None


def batches(counts: RowCounts) -> list[Batch]:
    """Return the batches in an order that satisfies the references between rows."""
    return [
        Batch("invoices", rows.insert_invoices, counts.some),
        Batch("payments", rows.insert_payments, counts.some),
        Batch("credit notes", rows.insert_credit_notes, counts.some),
        Batch("credits", rows.insert_credits, counts.some),
        Batch("checkouts", rows.insert_checkouts, counts.some),
        Batch("files", rows.insert_files, counts.some),
        Batch("comments on files", rows.insert_file_comments, counts.some, offset="comment_offset"),
        Batch("replies", rows.insert_replies, counts.some),
        Batch("buckets", rows.insert_buckets, counts.tasks // IN_BUCKET, first=0),
        Batch("tasks", rows.insert_tasks, counts.tasks),
        Batch("assignees", rows.insert_assignees, counts.tasks),
        Batch("comments on tasks", rows.insert_comments, counts.tasks // 2),
        Batch("timesheets", rows.insert_timesheets, counts.tasks),
        Batch("events", rows.insert_events, counts.events, offset="event_offset"),
        Batch("dispatches", rows.insert_dispatches, counts.dispatches, offset="dispatch_offset"),
        Batch("deliveries", rows.insert_deliveries, counts.deliveries),
        Batch("audit log", rows.insert_audit, counts.audit),
    ]


async def fill(database: Database, counts: RowCounts, progress: Progress = lambda what, done, total: None) -> BaseRows:
    """Write all rows into an empty database. Its schema may be an older one that has these columns."""
    base = BaseRows(database, counts)
    await base.write()
    params: dict[str, Any] = {**counts.params(), **base.params}
    for batch in batches(counts):
        done = 0
        while done < batch.rows:
            size = min(CHUNK, batch.rows - done)
            first = batch.first + done
            await database.write(batch.statement, [{**params, "first": first, "last": first + size - 1}])
            done += size
            progress(batch.what, done, batch.rows)
        if batch.offset is not None:
            row = await database.fetch_one(_first_ids[batch.offset])
            assert row is not None, "an aggregate has a row"
            params[batch.offset] = int(row[0]) - 1
    return base


class BaseRows:
    """The few rows that all others reference: people, organizations, projects with their columns, webhooks and a token.

    `params` contains their IDs, for statements. `token` belongs to the owner of both organizations.
    """

    def __init__(self, database: Database, counts: RowCounts) -> None:
        self._database, self._counts = database, counts
        self._created = {"created_at": counts.start_ms}
        self._times = {**self._created, "updated_at": counts.start_ms}
        self.token = new_token(CLASSIC.prefix)
        self.params: dict[str, int] = {}

    async def write(self) -> None:
        await self._write_people()
        await self._write_projects()
        await self._write_hooks()
        await self._write_work()
        await self._write_invitations()

    async def _insert(self, table: sa.Table, made: Iterable[dict[str, Any]]) -> None:
        """Insert rows with the same columns."""
        rows = list(made)
        await self._database.write(insert_into(table, *rows[0]), rows)

    async def _write_people(self) -> None:
        made = [("user", f"person{number}") for number in range(1, PEOPLE + 1)]
        made += [("organization", each) for each in ORGANIZATIONS]
        await self._insert(
            accounts,
            ({"kind": kind, "login": login, "login_key": login, "name": login.title(),
              "email": f"{login}@example.com" if kind == "user" else None, **self._times} for kind, login in made),
        )  # fmt: skip
        ids = {row["login"]: row["id"] for row in await self._database.fetch_all(_account_ids)}
        owner, (acme, globex) = ids[OWNER], (ids[each] for each in ORGANIZATIONS)
        self.params |= {"first_person": owner, "acme": acme, "globex": globex}
        belong = [(acme, number) for number in range(1, IN_BOTH[1] + 1)]
        belong += [(globex, number) for number in (1, *range(IN_BOTH[0], PEOPLE + 1))]
        await self._insert(
            memberships,
            ({"organization_id": organization, "user_id": owner + number - 1, **self._created,
              "role": "owner" if number == 1 else "member"} for organization, number in belong),
        )  # fmt: skip
        token = {"kind": CLASSIC.name, "digest": digest_of(self.token), "user_id": owner, "scopes": " ".join(SCOPES)}
        await self._insert(tokens, [{**token, **self._created}])
        await self._insert(administrators, [{"user_id": owner, **self._created}])

    def _owner_of(self, index: int) -> int:
        return self.params["acme"] if index < PROJECTS else self.params["globex"]

    def _outside(self) -> Sequence[int]:
        """Return the people who are only in the second organization."""
        return range(self.params["first_person"] + IN_BOTH[1], self.params["first_person"] + PEOPLE)

    async def _write_projects(self) -> None:
        """Insert the projects, plus one in the trash without any data."""
        total = 2 * PROJECTS
        await self._insert(
            projects,
            ({"id": self._counts.text_id("prj", index), "account_id": self._owner_of(index), "name": f"project{index}",
              "name_key": f"project{index}", "title": f"Project {index}", "private": index % 2 == 1, "archive": False,
              "deleted_at": self._counts.start_ms if index == total else None, **self._times}
             for index in range(total + 1)),
        )  # fmt: skip
        row = await self._database.fetch_one(_project_id, {"id": self._counts.text_id("prj", 0)})
        assert row is not None, "it was just written"
        first = self.params["first_repository"] = row["repository_id"]
        outside = self._outside()
        role = {"repository_id": first, "role": "write", **self._created}
        last = {"last": self._counts.tasks}
        await self._insert(task_numbers, ({"repository_id": first + index, **last} for index in range(total)))
        await self._insert(collaborators, ({**role, "user_id": each} for each in outside[:10]))
        numbers = [(each - self.params["first_person"], each) for each in outside[10:]]
        await self._insert(
            clients,
            ({"id": self._counts.text_id("cli", number), "repository_id": first, "user_id": user_id,
              "email": f"person{number + 1}@example.com", **self._times} for number, user_id in numbers),
        )  # fmt: skip

    async def _write_hooks(self) -> None:
        """Insert one webhook per repository, one per organization, and more for the last repository."""
        total, first = 2 * PROJECTS, self.params["first_repository"]
        of: list[tuple[int, int | None]] = [(self._owner_of(index), first + index) for index in range(total)]
        of += [(self.params["acme"], None), (self.params["globex"], None)]
        of += [(self.params["globex"], first + total - 1)] * MORE_HOOKS
        shared = {"active": True, "events": '["*"]', "config": json.encode_text(_HOOK_CONFIG), "version": 1}
        await self._insert(
            hooks, ({"account_id": owner, "repository_id": each, **shared, **self._times} for owner, each in of)
        )
        ids = [row["id"] for row in await self._database.fetch_all(_hook_ids, self.params)]
        self.params["first_hook"] = ids[0]
        free = {"manual_minute": 0, "manual_count": 0}
        await self._insert(lanes, ({"hook_id": each, **free} for each in ids))

    async def _write_work(self) -> None:
        first, text_id = self.params["first_repository"], self._counts.text_id
        await self._insert(
            columns,
            ({"id": text_id("col", index), "repository_id": first + index // COLUMNS, "position": index % COLUMNS,
              "title": f"Column {index % COLUMNS}", "finished": False, "start_timer": False, **self._times}
             for index in range(2 * PROJECTS * COLUMNS)),
        )  # fmt: skip
        numbers = range(rows.FOLDERS)
        await self._insert(
            folders,
            ({"id": text_id("fld", each), "repository_id": first, "title": f"Folder {each}", **self._times}
             for each in numbers),
        )  # fmt: skip
        flags = ("addon", "disable_pause", "disable_quantity", "cancel_at_period_end", "require_payment_method")
        shared = {"account_id": self.params["acme"], "prices": "[]", **dict.fromkeys(flags, False), **self._times}
        await self._insert(
            services,
            ({"id": text_id("svc", each), "position": each, "title": f"Service {each}", "active": each % 2 == 0,
              **shared} for each in numbers),
        )  # fmt: skip

    async def _write_invitations(self) -> None:
        acme, repository = self.params["acme"], self.params["first_repository"]
        shared = {"account_id": acme, "inviter_id": self.params["first_person"], **self._created,
                  "expires_at": now_ms() + 7 * DAY_MS}  # fmt: skip
        to_all = {**shared, "repository_id": None, "place": f"o{acme}", "role": "member", "user_id": None}
        to_one = {**shared, "repository_id": repository, "place": f"r{repository}", "role": "read", "email": None}
        guests = [f"guest{each}@example.com" for each in range(20)]
        await self._insert(invitations, ({**to_all, "email": each, "invitee": f"e{each}"} for each in guests))
        outside = self._outside()
        await self._insert(invitations, ({**to_one, "user_id": each, "invitee": f"u{each}"} for each in outside))
