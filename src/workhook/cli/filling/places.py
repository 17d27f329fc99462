"""The few rows that the many hang on: people, organizations, projects with their columns, webhooks, a token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from workhook.cli.filling.others import FOLDERS
from workhook.cli.filling.plan import COLUMNS, IN_BOTH, ORGANIZATIONS, OWNER, PEOPLE, PROJECTS, Plan
from workhook.core import json
from workhook.core.clock import DAY_MS, now_ms
from workhook.core.ids import new_token
from workhook.hooks.tables import hooks, lanes
from workhook.identity.policy import SCOPES
from workhook.identity.tables import accounts, collaborators, invitations, memberships, projects, tokens
from workhook.identity.tokens.issue import CLASSIC, digest_of
from workhook.storage import Database
from workhook.storage.metadata import big, insert_into
from workhook.work.clients.tables import clients
from workhook.work.columns.tables import columns
from workhook.work.files.tables import folders
from workhook.work.services.tables import services

Rows = Sequence[Mapping[str, Any]]

_TIMES = ("created_at", "updated_at")
_insert_account = insert_into(accounts, "kind", "login", "login_key", "name", "email", *_TIMES)
_insert_member = insert_into(memberships, "organization_id", "user_id", "role", "created_at")
_insert_project = insert_into(
    projects, "id", "account_id", "name", "name_key", "title", "private", "archive", "deleted_at", *_TIMES
)
_insert_collaborator = insert_into(collaborators, "repository_id", "user_id", "role", "created_at")
_insert_client = insert_into(clients, "id", "repository_id", "user_id", "email", *_TIMES)
_insert_hook = insert_into(hooks, "account_id", "repository_id", "active", "events", "config", "version", *_TIMES)
_insert_lane = insert_into(lanes, "hook_id", "lease_until", "manual_minute", "manual_count")
_insert_column = insert_into(columns, "id", "repository_id", "title", "position", "finished", "start_timer", *_TIMES)
_insert_folder = insert_into(folders, "id", "repository_id", "title", *_TIMES)
_insert_service = insert_into(
    services, "id", "account_id", "title", "active", "addon", "position", "disable_pause", "disable_quantity",
    "cancel_at_period_end", "require_payment_method", "prices", *_TIMES,
)  # fmt: skip
_insert_invitation = insert_into(
    invitations, "account_id", "repository_id", "user_id", "email", "role", "inviter_id", "created_at", "expires_at",
    "place", "invitee",
)  # fmt: skip
_insert_token = insert_into(tokens, "kind", "digest", "user_id", "scopes", "created_at")

_account_ids = sa.select(accounts.c.id, accounts.c.login).order_by(accounts.c.id)
_project_id = sa.select(projects.c.repository_id).where(projects.c.id == sa.bindparam("id"))
_hook_ids = sa.select(hooks.c.id).where(hooks.c.account_id.in_([big("acme"), big("globex")])).order_by(hooks.c.id)

_CONFIG = {"url": "https://hooks.example.com/in", "content_type": "json", "insecure_ssl": "0"}
MORE_HOOKS = 200  # of the last repository; they wait for what never comes


class Places:
    """What was made: ids for statements (`params`), and the token of who owns both organizations."""

    def __init__(self, database: Database, plan: Plan) -> None:
        self._database, self._plan = database, plan
        self._times = dict.fromkeys(_TIMES, plan.start_ms)
        self.token = new_token(CLASSIC.prefix)
        self.params: dict[str, int] = {}

    async def make(self) -> None:
        await self._people()
        await self._projects()
        await self._hooks()
        await self._work()
        await self._invite()

    async def _insert(self, statement: sa.Insert, rows: Rows) -> None:
        await self._database.write([(statement, rows)])

    async def _people(self) -> None:
        people = [("user", f"person{number}") for number in range(1, PEOPLE + 1)]
        made = [*people, *(("organization", each) for each in ORGANIZATIONS)]
        await self._insert(
            _insert_account,
            [
                {"kind": kind, "login": login, "login_key": login, "name": login.title(),
                 "email": f"{login}@example.com" if kind == "user" else None, **self._times}
                for kind, login in made
            ],
        )  # fmt: skip
        ids = {row["login"]: row["id"] for row in await self._database.fetch_all(_account_ids)}
        first, (one, other) = ids[OWNER], (ids[each] for each in ORGANIZATIONS)
        self.params |= {"first_person": first, "acme": one, "globex": other}
        last_here, first_there = IN_BOTH[1], IN_BOTH[0]
        belong = [(one, number) for number in range(1, last_here + 1)]
        belong += [(other, number) for number in (1, *range(first_there, PEOPLE + 1))]
        await self._insert(
            _insert_member,
            [
                {"organization_id": place, "user_id": first + number - 1, "role": "owner" if number == 1 else "member",
                 "created_at": self._plan.start_ms}
                for place, number in belong
            ],
        )  # fmt: skip
        token = {"kind": CLASSIC.name, "digest": digest_of(self.token), "user_id": first, "scopes": " ".join(SCOPES)}
        await self._insert(_insert_token, [{**token, "created_at": self._plan.start_ms}])

    def _owner_of(self, index: int) -> int:
        return self.params["acme"] if index < PROJECTS else self.params["globex"]

    async def _projects(self) -> None:
        """One more, in the trash, than belongs to anything."""
        total = 2 * PROJECTS
        await self._insert(
            _insert_project,
            [
                {"id": self._plan.text_id("prj", index), "account_id": self._owner_of(index), "name": f"project{index}",
                 "name_key": f"project{index}", "title": f"Project {index}", "private": index % 2 == 1,
                 "archive": False, "deleted_at": self._plan.start_ms if index == total else None, **self._times}
                for index in range(total + 1)
            ],
        )  # fmt: skip
        row = await self._database.fetch_one(_project_id, {"id": self._plan.text_id("prj", 0)})
        assert row is not None
        first = self.params["first_repository"] = row["repository_id"]
        outside = range(IN_BOTH[1], PEOPLE)  # by index: members of the second organization only
        await self._insert(
            _insert_collaborator,
            [
                {"repository_id": first, "user_id": self.params["first_person"] + each, "role": "write",
                 "created_at": self._plan.start_ms}
                for each in outside[:10]
            ],
        )  # fmt: skip
        await self._insert(
            _insert_client,
            [
                {"id": self._plan.text_id("cli", each), "repository_id": first, **self._times,
                 "user_id": self.params["first_person"] + each, "email": f"person{each + 1}@example.com"}
                for each in outside[10:]
            ],
        )  # fmt: skip

    async def _hooks(self) -> None:
        """One of each repository, one of each organization, and more of the last repository."""
        total, first = 2 * PROJECTS, self.params["first_repository"]
        of_repositories = [(self._owner_of(index), first + index) for index in range(total)]
        of_organizations = [(self.params["acme"], None), (self.params["globex"], None)]
        more = [(self.params["globex"], first + total - 1)] * MORE_HOOKS
        await self._insert(
            _insert_hook,
            [
                {"account_id": owner, "repository_id": repository, "active": True, "events": '["*"]', **self._times,
                 "config": json.encode_text(_CONFIG), "version": 1}
                for owner, repository in [*of_repositories, *of_organizations, *more]
            ],
        )  # fmt: skip
        ids = [row["id"] for row in await self._database.fetch_all(_hook_ids, self.params)]
        self.params["first_hook"] = ids[0]
        free = {"lease_until": 0, "manual_minute": 0, "manual_count": 0}
        await self._insert(_insert_lane, [{"hook_id": each, **free} for each in ids])

    async def _work(self) -> None:
        first = self.params["first_repository"]
        await self._insert(
            _insert_column,
            [
                {"id": self._plan.text_id("col", index), "repository_id": first + index // COLUMNS, **self._times,
                 "title": f"Column {index % COLUMNS}", "position": index % COLUMNS, "finished": False,
                 "start_timer": False}
                for index in range(2 * PROJECTS * COLUMNS)
            ],
        )  # fmt: skip
        await self._insert(
            _insert_folder,
            [
                {"id": self._plan.text_id("fld", index), "repository_id": first, "title": f"Folder {index}",
                 **self._times}
                for index in range(FOLDERS)
            ],
        )  # fmt: skip
        flags = ("addon", "disable_pause", "disable_quantity", "cancel_at_period_end", "require_payment_method")
        await self._insert(
            _insert_service,
            [
                {"id": self._plan.text_id("svc", index), "account_id": self.params["acme"], "position": index,
                 "title": f"Service {index}", "active": index % 2 == 0, "prices": "[]", **self._times,
                 **dict.fromkeys(flags, False)}
                for index in range(FOLDERS)
            ],
        )  # fmt: skip

    async def _invite(self) -> None:
        acme, repository = self.params["acme"], self.params["first_repository"]
        common = {"account_id": acme, "inviter_id": self.params["first_person"], "created_at": self._plan.start_ms,
                  "expires_at": now_ms() + 7 * DAY_MS}  # fmt: skip
        guests = [f"guest{each}@example.com" for each in range(20)]
        to_all = [
            {**common, "repository_id": None, "place": f"o{acme}", "role": "member", "user_id": None, "email": each,
             "invitee": f"e{each}"}
            for each in guests
        ]  # fmt: skip
        outside = range(self.params["first_person"] + IN_BOTH[1], self.params["first_person"] + PEOPLE)
        to_one = [
            {**common, "repository_id": repository, "place": f"r{repository}", "role": "read", "user_id": each,
             "email": None, "invitee": f"u{each}"}
            for each in outside
        ]  # fmt: skip
        await self._insert(_insert_invitation, [*to_all, *to_one])
