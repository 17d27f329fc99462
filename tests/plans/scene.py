"""A server with full tables, and the limits for the work of a list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.harness.databases import Databases
from tests.harness.world import with_services
from tests.plans import filled, filled_history, filled_people, work_callers
from tests.plans.callers import Callers, make_callers
from tests.plans.captured import CapturedServer
from tests.plans.filled import Fill
from tests.plans.judges import Judge, PostgresJudge, SqliteJudge
from tests.plans.rows import Row
from workhook import asgi
from workhook.core.clock import now_ms
from workhook.http.calls import Services
from workhook.http.operations import Operation
from workhook.work.time.timesheets import sums

PER_PAGE = 5
DEEP_PAGES = 3
"""Pages of a hundred rows that are skipped before a later page is judged."""

COUNTED = 16
"""Allowed work for each row that a list counts in its total, in addition to the page."""

BOUND = 600
"""Allowed work for a page of `PER_PAGE` rows, in rows: a sixth of reading all rows of a project."""


OPERATIONS: Mapping[str, Operation] = {
    each.name: each for each in asgi.described() if each.method == "GET" and each.query
}


class Scene:
    """A server with full tables."""

    def __init__(self, server: CapturedServer, judge: Judge, settings: dict[str, Any], fills: Sequence[Fill]) -> None:
        server.start()
        self.server, self.judge = server, judge
        self.callers = {"owner": server.client(server.world.token)}
        names = {
            "organization": server.world.organization,
            "repository": server.world.repository,
            "column": "col_000000000",
            "task": "tsk_000000000",
            "invoice": "inv_000000000",
            "file": "fil_000000000",
            "hook": str(filled_history.HOOK),
            "organization_hook": "200000",
        }
        self.places = {
            "project": {**names, "project": server.world.project_id},
            "other": {**names, "project": "prj_other", "repository": "x", "hook": str(filled_history.OTHER_HOOK)},
        }

        async def prepare(services: Services) -> tuple[Mapping[str, str], Callers]:
            callers = await make_callers(services, server.world, fills)
            await sums.add_changes(services, now_ms())  # as the chore does
            return await work_callers.make(services, server.world), callers

        tokens, made = with_services(settings, prepare)
        self.callers |= {name: server.client(token) for name, token in tokens.items()}
        self.callers |= {name: server.client(None, auth=auth) for name, auth in made.auth.items()}
        few = {"organization": filled_people.FEW_ORG, "repository": "x", "installation": str(made.installation_id)}
        self.places["few"] = {**few, "user": filled_people.FEW_ORG}
        self.places["shared"] = {**few, "user": filled.OFTEN_LOGIN}
        judge.after_filling()

    def close(self) -> None:
        for each in self.callers.values():
            each.close()
        self.judge.close()
        self.server.close()

    def path(self, row: Row) -> str:
        """Return the operation's path with the IDs of the row's place filled in: `/projects/{id}` is a project's."""
        parts = OPERATIONS[row.operation].path.split("/")
        for number, part in enumerate(parts):
            if part.startswith("{"):
                kinds = {
                    "projects": "project", "columns": "column", "tasks": "task", "files": "file", "hooks": "hook",
                    "users": "user", "installations": "installation", "invoices": "invoice",
                }  # fmt: skip
                kind = "repository" if part == "{repo}" else kinds.get(parts[number - 1], "organization")
                if parts[1] == "orgs" and kind == "hook":
                    kind = "organization_hook"
                parts[number] = self.places[row.place][kind]
        prefix = OPERATIONS[row.operation].area.prefixes[0]
        return prefix + "/".join(parts)


@contextmanager
def filled_scene(backend: Databases, folder: Path, fills: Sequence[Fill]) -> Iterator[Scene]:
    settings = {"data": str(folder), **backend.new(folder)}
    url = settings.get("database_url")
    judge: Judge = PostgresJudge(url) if url else SqliteJudge(folder / "workhook.db")
    scene = Scene(CapturedServer(settings), judge, settings, fills)
    try:
        yield scene
    finally:
        scene.close()


def number_shown(response: httpx.Response) -> int:
    assert response.status_code == 200, response.text
    answer = response.json()
    if isinstance(answer, dict):
        answer = next(each for each in answer.values() if isinstance(each, list))
    return len(answer)


def _far_page(caller: httpx.Client, path: str, query: Mapping[str, str]) -> str | None:
    """Return the URL of a page after a few hundred rows, or None if there are fewer."""
    address: str | None = str(httpx.URL(path, params={**query, "per_page": "100"}))
    for _ in range(DEEP_PAGES):
        response = caller.get(address or "")
        assert response.status_code == 200, response.text
        if "next" not in response.links:
            return None
        address = response.links["next"]["url"]
    return str(httpx.URL(address or "").copy_set_param("per_page", str(PER_PAGE)))


def look(scene: Scene, row: Row) -> None:
    """Request the first page and one far behind it, and judge the statements."""
    caller, place = scene.callers[row.caller], scene.places[row.place]
    query = {name: value.format_map(place) for name, value in row.query.items()}
    path = scene.path(row)
    caller.get(path, params={**query, "per_page": str(PER_PAGE)})  # fills the short-lived caches
    first = str(httpx.URL(path, params={**query, **_paged(row)}))
    for address in filter(None, (first, _far_page(caller, path, query) if _paged(row) else None)):
        scene.server.asked.clear()
        shown = number_shown(caller.get(address))
        assert row.walks or shown >= row.finds, f"{address} shows {shown}"
        judge_all(scene, row, address)


def _paged(row: Row) -> dict[str, str]:
    names = {each.name for each in OPERATIONS[row.operation].query}
    return {"per_page": str(PER_PAGE)} if "per_page" in names else {}


def judge_all(scene: Scene, row: Row, address: str) -> None:
    verdicts = [each for asked in list(scene.server.asked) for each in scene.judge.judge(*asked)]
    bound = (row.bound or BOUND) + (row.sqlite_more if isinstance(scene.judge, SqliteJudge) else 0)
    bound += COUNTED * (_total(scene, row) if row.counts else 0)
    wrong = [f"{address} looks at {each.work}\n{each.plan}" for each in verdicts if each.work > bound]
    assert wrong == [], "\n\n".join(wrong)


def _total(scene: Scene, row: Row) -> int:
    """Return the total of the list, from its last page with one row per page."""
    query = {name: value.format_map(scene.places[row.place]) for name, value in row.query.items()}
    answer = scene.callers[row.caller].get(scene.path(row), params={**query, "per_page": "1"})
    assert answer.status_code == 200, answer.text
    return int(httpx.URL(answer.links["last"]["url"]).params["page"]) if "last" in answer.links else 1
