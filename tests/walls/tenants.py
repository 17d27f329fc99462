"""A tenant that makes seeded random requests: valid ones, and some that name another tenant's objects."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

from tests.harness.server import Server
from tests.harness.world import World, add_client, add_user
from tests.walls.overlap import Overlap, Shared
from tests.walls.said import Said, said
from tests.walls.world import MarkedScene
from tests.work.requests_kit import TABLE
from tests.work.studio import Caller

# Files that need a separate process.
_LEFT_OUT = {"GET /invoices/{}/pdf", "GET /credit_notes/{}/pdf", "GET /invoices/{}/xml", "GET /credit_notes/{}/xml"}
_FOREIGN = 0.3  # of the requests, if there are two tenants
_OVERLAP = 0.5  # of the steps: those about people and an app shared with the other tenant
Ids = tuple[Any, ...]


class _Counting(MarkedScene):
    """Invites the same addresses in every run, and uses one column, because a project is limited to 200."""

    invited = 0
    shelf = ""

    def new_email(self) -> str:
        self.invited += 1
        return f"{self.word}-{self.invited}@example.com"

    def task(self, column_id: str | None = None, **more: Any) -> str:
        self.shelf = self.shelf or self.column()
        return super().task(column_id or self.shelf, **more)


class Tenant:
    """`do` makes the next request of a sequence determined by the seed alone. Requests about the other tenant are drawn
    from a second sequence, so the first one is the same without them."""

    def __init__(self, server: Server, word: str, seed: int, shared: Shared, place: int) -> None:
        self.word, self.server = word, server
        self.world: World = server.world()
        self.owner = Caller(server, self.world.token)
        self.people = [self.owner]
        for make in (partial(add_user, world=self.world, member="member"), partial(add_client, world=self.world)):
            self.people.append(Caller(server, server.run(make)))
        self.login = str(self.people[1].get("/me")["user"]["username"])
        self.scene = _Counting(self.owner, self.world.project_id, self.world.organization, self.login, word)
        self.overlap = Overlap(shared, self.world, self.owner, self.people[2], place)
        self.third = shared.third.world
        self.other: Tenant | None = None
        self.pool: dict[str, list[Ids]] = {}  # IDs used in paths of its requests
        self.names: dict[str, list[Any]] = {}  # IDs used in bodies, by field
        self.said: list[Said] = []
        self._random = random.Random(f"{seed} {word}")
        self._foreign = random.Random(f"{seed} {word} foreign")
        self._keys = sorted(set(TABLE) - _LEFT_OUT)

    # --- its own objects ---

    def do(self) -> None:
        key, person = self._random.choice(self._keys), self._random.choice(self.people)
        again, place = self._random.random() < 0.4, self._random.random()
        kind = self._random.random()
        if kind < _OVERLAP:
            self.said += self.overlap.step(self._random)
        elif kind < _OVERLAP + 0.1:
            self._hooks(place)
        else:
            self._work(key, person, place if again else None)
        if self.other is not None and self._foreign.random() < _FOREIGN:
            self._name_anothers(self.other)

    def _work(self, key: str, person: Caller, place: float | None) -> None:
        """Make a request about an earlier object chosen by `place` (0 to 1), or about a new one if it is None."""
        _, made, body = TABLE[key]
        known = self.pool.get(key, [])
        if place is not None and known:
            ids = known[int(place * len(known))]
        else:
            found = made(self.scene)
            ids = found if isinstance(found, tuple) else (found,)
            self.pool.setdefault(key, []).append(ids)
        given = body(self.scene) if callable(body) else body
        for name, value in given.items():
            if name in _NAMED:
                self.names.setdefault(name, []).append(value)
        self._ask(person, key, ids, given, foreign=False)

    def _ask(self, person: Caller, key: str, ids: Ids, given: dict[str, Any], *, foreign: bool) -> None:
        method, pattern = key.split()
        more = given if {"params", "files"} & set(given) else {"json": given} if method in ("POST", "PATCH") else {}
        answer = person.call(method, pattern.format(*ids), **more)
        title, by_client = f"{key} {ids} {given}", person is self.people[2]
        self.said.append(said(key, title, answer, foreign=foreign, by_client=by_client))

    def _hooks(self, place: float) -> None:
        """Make a request about webhooks, events or tokens."""
        at = self.world.repo_path if place < 0.5 else self.world.org_path
        known = self.pool.setdefault(at, [])
        hook = known[int(place * len(known))][0] if known else 0
        # Each has its own address because duplicates are refused.
        config = {"url": f"http://127.0.0.1:9/{self.word}/{len(known)}"}
        body = {"name": "web", "events": ["*"], "config": config}
        method, path, given = [
            ("POST", f"{at}/hooks", body),
            ("PATCH", f"{at}/hooks/{hook}", {"active": place < 0.7}),
            ("DELETE", f"{at}/hooks/{hook}", {}),
            ("POST", f"{at}/hooks/{hook}/pings", {}),
            ("POST", f"{at}/events", {"event": "fork", "payload": {"text": self.word}}),
            ("POST", f"{self.world.repo_path}/dispatches", {"event_type": self.word}),
            ("POST", "/user/tokens", {"note": self.word}),
        ][int(place * 1000) % 7]
        answer = self.owner.http.request(method, path, json=given)
        if path.endswith("/hooks"):
            known.append((answer.json()["id"],))
        self.said.append(said(f"{method} a hook", f"{method} {path}", answer))

    # --- the other tenant's objects ---

    def _name_anothers(self, other: Tenant) -> None:
        """Name an object of the other tenant in the path, or in the body of a request about an own object."""
        person = self._foreign.choice(self.people)
        if self._foreign.random() < 0.5:
            self._in_path(other, person)
        else:
            self._in_body(other, person)

    def _in_path(self, other: Tenant, person: Caller) -> None:
        known = [key for key, ids in sorted(other.pool.items()) if ids and ids[0] and key in TABLE and "{" in key]
        if not known:
            return
        key = self._foreign.choice(known)
        ids = self._foreign.choice(list(other.pool[key]))
        body = TABLE[key][2]
        self._ask(person, key, ids, {} if callable(body) else body, foreign=True)

    def _in_body(self, other: Tenant, person: Caller) -> None:
        """Make a request that must fail, because the named object does not exist for this tenant."""
        scene = self.scene
        names = {name: self._foreign.choice(values) for name, values in sorted(other.names.items())}
        project = (scene.project_id,)
        task, column = names.get("task_id"), other.pool.get("GET /columns/{}", [("none",)])[0][0]
        wanted: list[tuple[str, Ids, dict[str, Any]]] = [
            ("POST /projects/{}/timesheets", project, {"task_id": task, "duration": 1000}),
            ("POST /projects/{}/service_checkouts", project, {"service_id": names.get("service_id")}),
            ("POST /projects/{}/task_credits", project, {"kind": "spend", "amount": 1, "task_id": task}),
            ("POST /projects/{}/members", project, {"username": other.login}),
            ("POST /projects/{}/members", project, {"username": self.third.owner}),
            ("POST /services", (), {"title": "New", "organization": other.world.organization}),
            ("POST /projects", (), {"title": "New", "organization": other.world.organization}),
            ("POST /tasks/bulk", (), {"operations": [{"action": "create", "column_id": column, "title": "New"}]}),
        ]
        key, ids, given = self._foreign.choice(wanted)
        self._ask(person, key, ids, given, foreign=True)

    # --- description ---

    def accounts(self) -> frozenset[int]:
        """Return the organization and the people who act in it."""
        with self.server.client(self.world.token) as client:
            organization = client.get(self.world.org_path).json()["id"]
        return frozenset({organization, *(each.get("/me")["user"]["id"] for each in self.people)})

    def drawn(self) -> dict[str, str]:
        """Return the random names of this run with their placeholders."""
        logins = [each.login for each in self.people]
        drawn = {self.world.organization: "organization", self.third.organization: "third"}
        drawn[self.overlap.third.client_id] = "app"
        logins += self.overlap.logins
        return drawn | {login: f"person {place}" for place, login in enumerate(logins)}

    def close(self) -> None:
        for person in self.people:
            person.http.close()
        self.overlap.close()


_NAMED = {"task_id", "service_id"}
