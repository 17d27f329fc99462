"""No list looks at much more than it shows, whatever it is narrowed by or sorted by, and wherever a page begins.

All that the API offers is in the table of `rows_….py`. `filled.py` fills the tables, `judges.py` counts what a database
looks at; the statements are those of real requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.databases import Databases
from tests.harness.world import add_client, with_services
from tests.plans import filled, filled_history, rows_history, rows_work
from tests.plans.captured import CapturedServer
from tests.plans.judges import Judge, PostgresJudge, SqliteJudge
from tests.plans.rows import NO_LISTS, PAGING, TODO, Row
from workhook import asgi
from workhook.http.calls import Services
from workhook.http.operations import Operation
from workhook.work.tasks import listing
from workhook.work.timesheets import queries as timesheets_queries

ROWS: tuple[Row, ...] = (*rows_work.ROWS, *rows_history.ROWS)
FILLS = (*filled.PEOPLE, *filled.WORK, *filled_history.HISTORY)

PER_PAGE = 5
DEEP_PAGES = 3
"""Of a hundred rows, that are passed before a page is judged that is not the first."""

BOUND = 600
"""Of work for a page of `PER_PAGE` rows, in rows: a sixth of what looking at all of a project's is."""


OPERATIONS: Mapping[str, Operation] = {
    each.name: each for each in asgi.described() if each.method == "GET" and each.query
}


def offered(operation: Operation) -> Iterator[str]:
    """What a caller can choose: `filter=value` where all values are known, else the filter; empty for the list."""
    yield ""
    for query in operation.query:
        if query.name in PAGING:
            continue
        values = ["true", "false"] if query.schema.get("type") == "boolean" else query.schema.get("enum", [])
        yield from [f"{query.name}={each}" for each in values] or [query.name]


def test_every_filter_and_sort_has_a_row() -> None:
    wanted = {
        (name, each) for name, operation in OPERATIONS.items() if name not in TODO | NO_LISTS
        for each in offered(operation)
    }  # fmt: skip
    rows = ROWS + rows_work.NOT_YET
    given = {(row.operation, each) for row in rows for each in ("", *row.query)}
    given |= {(row.operation, f"{name}={value}") for row in rows for name, value in row.query.items()}
    assert sorted(wanted - given) == []


def test_no_row_is_about_what_is_not_there() -> None:
    assert set(OPERATIONS) >= TODO | NO_LISTS
    for row in ROWS:
        assert row.operation not in TODO | NO_LISTS
        assert set(row.query) <= {each.name for each in OPERATIONS[row.operation].query}, row
    assert len({str(row) for row in ROWS}) == len(ROWS)


class Scene:
    """A server on tables that are full."""

    def __init__(self, server: CapturedServer, judge: Judge, settings: dict[str, Any]) -> None:
        server.start()
        self.server, self.judge = server, judge
        self.callers = {"owner": server.client(server.world.token)}
        names = {
            "organization": server.world.organization,
            "repository": server.world.repository,
            "column": "col_000000000",
            "task": "tsk_000000000",
            "file": "fil_000000000",
            "hook": str(filled_history.HOOK),
            "organization_hook": "200000",
        }
        self.places = {
            "project": {**names, "project": server.world.project_id},
            "other": {**names, "project": "prj_other", "repository": "x", "hook": str(filled_history.OTHER_HOOK)},
        }

        async def prepare(services: Services) -> str:
            await filled.fill(services, server.world, FILLS)
            return await add_client(services, server.world)

        self.callers["client"] = server.client(with_services(settings, prepare))
        judge.after_filling()

    def close(self) -> None:
        for each in self.callers.values():
            each.close()
        self.judge.close()
        self.server.close()

    def path(self, row: Row) -> str:
        """The operation's path, with the names of the place in it: `/projects/{id}` is a project's."""
        parts = OPERATIONS[row.operation].path.split("/")
        for number, part in enumerate(parts):
            if part.startswith("{"):
                kinds = {"projects": "project", "columns": "column", "tasks": "task", "files": "file", "hooks": "hook"}
                kind = "repository" if part == "{repo}" else kinds.get(parts[number - 1], "organization")
                if parts[1] == "orgs" and kind == "hook":
                    kind = "organization_hook"
                parts[number] = self.places[row.place][kind]
        prefix = OPERATIONS[row.operation].area.prefixes[0]
        return prefix + "/".join(parts)


@pytest.fixture(scope="module")
def scene(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder: Path = tmp_path_factory.mktemp("plans")
    settings = {"data": str(folder), **backend.new(folder)}
    url = settings.get("database_url")
    judge: Judge = PostgresJudge(url) if url else SqliteJudge(folder / "workhook.db")
    # So that what is filled in is much more than a page looks at.
    with pytest.MonkeyPatch.context() as patch:
        for module in (listing, timesheets_queries):
            patch.setattr(module, "LOOKS_AT_MOST", 100)
        scene = Scene(CapturedServer(settings), judge, settings)
        yield scene
        scene.close()


def _shown(response: httpx.Response) -> int:
    assert response.status_code == 200, response.text
    answer = response.json()
    if isinstance(answer, dict):
        answer = next(each for each in answer.values() if isinstance(each, list))
    return len(answer)


def _far(caller: httpx.Client, path: str, query: Mapping[str, str]) -> str | None:
    """The address of a page that comes after some hundred rows, if there are so many."""
    address: str | None = str(httpx.URL(path, params={**query, "per_page": "100"}))
    for _ in range(DEEP_PAGES):
        response = caller.get(address or "")
        assert response.status_code == 200, response.text
        if "next" not in response.links:
            return None
        address = response.links["next"]["url"]
    return str(httpx.URL(address or "").copy_set_param("per_page", str(PER_PAGE)))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_page_looks_at_little_more_than_it_shows(scene: Scene, row: Row) -> None:
    caller, place = scene.callers[row.caller], scene.places[row.place]
    query = {name: value.format_map(place) for name, value in row.query.items()}
    path = scene.path(row)
    caller.get(path, params={**query, "per_page": str(PER_PAGE)})  # what is remembered for a moment is known now
    first = str(httpx.URL(path, params={**query, **_paged(row)}))
    for address in filter(None, (first, _far(caller, path, query) if _paged(row) else None)):
        scene.server.asked.clear()
        shown = _shown(caller.get(address))
        assert row.walks or shown >= row.finds, f"{address} shows {shown}"
        _judge_all(scene, row, address)


def _paged(row: Row) -> dict[str, str]:
    names = {each.name for each in OPERATIONS[row.operation].query}
    return {"per_page": str(PER_PAGE)} if "per_page" in names else {}


def _judge_all(scene: Scene, row: Row, address: str) -> None:
    verdicts = [each for asked in list(scene.server.asked) for each in scene.judge.judge(*asked)]
    bound = row.bound or BOUND
    wrong = [f"{address} looks at {each.work}\n{each.plan}" for each in verdicts if each.work > bound]
    assert wrong == [], "\n\n".join(wrong)


WALKS = (
    Row("list_project_tasks", {"finished": "true"}, finds=4),
    Row("list_project_tasks", {"label": "rare", "sort": "-title"}, finds=4),
    Row("list_project_tasks", {"priority": "low", "sort": "deadline"}, finds=4),
    Row("list_timesheets", {"billable": "true"}, finds=4),
)


@pytest.mark.parametrize("row", WALKS, ids=str)
def test_what_few_rows_fit_is_found_page_by_page(scene: Scene, row: Row) -> None:
    """A page ends where it has looked at as many as it may, and the next begins there: nothing is passed over."""
    caller = scene.callers["owner"]
    address = str(httpx.URL(scene.path(row), params={**row.query, "per_page": "100"}))
    ids, pages = list[str](), 0
    while address:
        response = caller.get(address)
        assert response.status_code == 200, response.text
        answer = response.json()
        found = answer if isinstance(answer, list) else next(each for each in answer.values() if isinstance(each, list))
        ids += [each["id"] for each in found]
        pages += 1
        address = response.links.get("next", {}).get("url", "")
    assert len(ids) == len(set(ids)) == row.finds
    assert pages > 30


def test_a_table_of_few_timesheets_is_whole(scene: Scene) -> None:
    path = scene.path(Row("list_timesheets"))
    answer = scene.callers["owner"].get(path, params={"billable": "true"}, headers={"Accept": "text/csv"})
    assert len(answer.text.splitlines()) == 1 + 4
