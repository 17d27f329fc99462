"""A1, A2, A4: reading a column, creating tasks, moving cards."""

from __future__ import annotations

import json
import random
import statistics
from dataclasses import dataclass
from typing import Any, Self

import httpx

from bench import world
from bench.client import get, post, send_all
from bench.databases import Place, Postgres
from bench.processes import CannotMeasure, Process, run_module, workhook

READERS = 16
WRITERS = 16
SHOWN = 50  # tasks in the column that A1 reads
SHORT, LONG = 10, 10_000  # tasks in the columns that A4 compares
COLUMNS = 4  # in each project that A2 writes to
PROJECTS = 8
AT_ONCE = 1000  # tasks per bulk request


@dataclass
class Cost:
    """CPU microseconds per request: of the server, of PostgreSQL, and of the baseline (before and after)."""

    server_us: float
    database_us: float
    yardstick_us: tuple[float, float]

    @property
    def ratio(self) -> float:
        return (self.server_us + self.database_us) / statistics.mean(self.yardstick_us)


@dataclass
class Moving:
    """Median milliseconds of a move, in the short column and in the long one."""

    short_ms: float
    long_ms: float

    @property
    def ratio(self) -> float:
        return self.long_ms / self.short_ms


class Board:
    """A context manager that runs `serve` on a core, with projects of an organization.

    `more` contains further arguments for `serve`.
    """

    def __init__(
        self, place: Place, core: int, postgres: Postgres | None, *more: str, projects: int = PROJECTS
    ) -> None:
        self._place, self._core, self._postgres = place, core, postgres
        self.world = world.make_world(place, "http://127.0.0.1:9", repositories=projects, hooks=0)
        self._token = self.world.token
        self.process = workhook("serve", place.folder, place.settings, core, "--port", "0", *more)
        self.url = self.process.wait_for_url()
        headers = {"Authorization": f"Bearer {self._token}"}
        self._http = httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=120)
        self.projects = [each["id"] for each in self.call("GET", "/projects")["projects"]]
        self._plain: Process | None = None
        self._shuffle = random.Random(1)
        self._bare_place: Place | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        if self._plain is not None:
            self._plain.stop()
        self.process.stop()

    def call(self, method: str, path: str, *, ok: int = 200, **more: Any) -> Any:
        """Return the JSON response. Raises `CannotMeasure` for any status other than `ok`."""
        response = self._http.request(method, path, **more)
        if response.status_code != ok:
            raise CannotMeasure(f"{method} {path}: {response.status_code} {response.text}")
        return response.json()

    def column(self, project_id: str, count: int = 0) -> tuple[str, list[str]]:
        """Create a column with `count` tasks, and return its ID and theirs."""
        column_id = self.call("POST", f"/projects/{project_id}/columns", json={"title": "To do"})["column"]["id"]
        task_ids: list[str] = []
        for start in range(0, count, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, count))
            operations = [{"action": "create", "column_id": column_id, **_task(number)} for number in numbers]
            made = self.call("POST", "/tasks/bulk", json={"operations": operations})["tasks"]
            task_ids += [each["id"] for each in made]
        return column_id, task_ids

    # --- A1 -----------------------------------------------------------------------------------------------------------

    def prepare_reading(self) -> None:
        """Create the column to read, and start the server that returns the same bytes from memory."""
        column_id, _ = self.column(self.projects[0], SHOWN)
        self._read_path = f"/api/v1/columns/{column_id}/tasks"
        answer = self._http.get(f"/columns/{column_id}/tasks")
        file = self._place.folder / "answer.json"
        file.write_bytes(answer.content)
        self._plain = Process("bench.plain", str(file), core=self._core)
        self._plain_url = self._plain.wait_for_url()

    def read(self, count: int) -> Cost:
        request = get(self._read_path, self._token)
        before = self._plain_us(request, count)
        server_us, database_us = self._cpu_us([request] * count, READERS)
        return Cost(server_us, database_us, (before, self._plain_us(request, count)))

    def _plain_us(self, request: bytes, count: int) -> float:
        assert self._plain is not None
        send_all(self._plain_url, [request] * READERS, expected=200, at_once=READERS)
        before = self._plain.cpu_s()
        send_all(self._plain_url, [request] * count, expected=200, at_once=READERS)
        return (self._plain.cpu_s() - before) * 1e6 / count

    def _cpu_us(self, requests: list[bytes], at_once: int) -> tuple[float, float]:
        """Return the CPU microseconds per request of the server and of PostgreSQL."""
        server, database = self.process.cpu_s(), self._postgres_cpu_s()
        send_all(self.url, requests, expected=200, at_once=at_once)
        each = 1e6 / len(requests)
        return (self.process.cpu_s() - server) * each, (self._postgres_cpu_s() - database) * each

    def _postgres_cpu_s(self) -> float:
        return self._postgres.cpu_s() if self._postgres else 0.0

    # --- A2 -----------------------------------------------------------------------------------------------------------

    def prepare_writing(self) -> None:
        """Create columns in several projects: concurrent requests wait for each other only within a column."""
        made = [self.column(project_id)[0] for project_id in self.projects for _ in range(COLUMNS)]
        self._write_paths = [f"/api/v1/columns/{each}/tasks" for each in made]

    def write(self, count: int) -> Cost:
        before = self._bare(count)
        requests = [
            post(self._write_paths[number % len(self._write_paths)], json.dumps(_task(number)).encode(), self._token)
            for number in range(count)
        ]
        server_us, database_us = self._cpu_us(requests, WRITERS)
        return Cost(server_us, database_us, (before, self._bare(count)))

    def _bare(self, count: int) -> float:
        """Return CPU microseconds per transaction, including PostgreSQL's.

        Uses its own database, so as not to disturb the other.
        """
        if self._bare_place is None:
            url = self._postgres.new() if self._postgres else None
            self._bare_place = Place(self._place.folder / "bare", url)
            made = world.make_world(self._bare_place, "http://127.0.0.1:9", repositories=PROJECTS, hooks=0)
            assert made.repositories
        database = self._postgres_cpu_s()
        where = self._bare_place.url or str(self._bare_place.folder / "workhook.db")
        found = json.loads(run_module("bench.inserts", [where, str(count), str(WRITERS)], self._core))
        return (float(found["cpu_s"]) + self._postgres_cpu_s() - database) * 1e6 / int(found["count"])

    # --- A4 -----------------------------------------------------------------------------------------------------------

    def prepare_moving(self) -> None:
        self._short = self.column(self.projects[0], SHORT)[1]
        self._long = self.column(self.projects[1], LONG)[1]

    def move(self, count: int) -> Moving:
        """Move cards of the two columns alternately, each from and to random positions."""
        requests = [self._move(task_ids) for _ in range(count) for task_ids in (self._short, self._long)]
        taken = [each.ms for each in send_all(self.url, requests, expected=200)]
        return Moving(statistics.median(taken[::2]), statistics.median(taken[1::2]))

    def _move(self, task_ids: list[str]) -> bytes:
        body = json.dumps({"position": self._shuffle.randrange(len(task_ids))}).encode()
        return post(f"/api/v1/tasks/{self._shuffle.choice(task_ids)}", body, self._token, method="PATCH")


def _task(number: int) -> dict[str, object]:
    return {"title": f"Task {number}", "description": "x" * 200, "priority": "high", "labels": ["one", "two"]}
