"""No list reads much more than it shows, with any filter or sort order and for any page.

The tables in `rows_….py` contain everything the API offers. `filled.py` fills the tables, and `judges.py` measures what
a database reads. The statements are those of real requests.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.harness.databases import Databases
from tests.plans import filled, filled_history, filled_people, rows_history, rows_people, rows_work
from tests.plans.rows import NO_LISTS, PAGING, Row
from tests.plans.scene import OPERATIONS, Scene, filled_scene, judge_all, look
from workhook.hooks import health
from workhook.http.operations import Operation
from workhook.work.board.tasks import listing
from workhook.work.history import search
from workhook.work.kernel import lists

JUDGED: tuple[Row, ...] = (*rows_work.ROWS, *rows_history.ROWS)
ROWS = (*JUDGED, *rows_people.ROWS)
NOT_YET = (*rows_work.NOT_YET, *rows_people.NOT_YET)
FILLS = (*filled.PEOPLE, *filled.WORK, *filled_history.HISTORY)

FOUND = 5
"""The maximum number of results per kind in a search."""


def choices(operation: Operation) -> Iterator[str]:
    """Yield the choices of a caller:

    `filter=value` if all values are known, otherwise the filter, and an empty string for none.
    """
    yield ""
    for query in operation.query:
        if query.name in PAGING:
            continue
        values = ["true", "false"] if query.schema.get("type") == "boolean" else query.schema.get("enum", [])
        yield from [f"{query.name}={each}" for each in values] or [query.name]


def test_every_filter_and_sort_has_a_row() -> None:
    wanted = {
        (name, each) for name, operation in OPERATIONS.items() if name not in NO_LISTS
        for each in choices(operation)
    }  # fmt: skip
    rows = ROWS + NOT_YET
    given = {(row.operation, each) for row in rows for each in ("", *row.query)}
    given |= {(row.operation, f"{name}={value}") for row in rows for name, value in row.query.items()}
    assert sorted(wanted - given) == []


def test_every_row_is_about_an_existing_list() -> None:
    assert set(OPERATIONS) >= NO_LISTS
    for row in ROWS:
        assert row.operation not in NO_LISTS
        assert set(row.query) <= {each.name for each in OPERATIONS[row.operation].query}, row
    assert len({str(row) for row in ROWS}) == len(ROWS)


@pytest.fixture(scope="module")
def scene(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    # Make the inserted rows many more than a page may read.
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MAX_SCANNED_ROWS", "MAX_SCANNED_ROWS_IN_PROJECT"):
            patch.setattr(lists, name, 100)
        patch.setattr(listing, "SEARCH_LIMITS", lists.FirstRows(sqlite_rows=100, postgresql_rows=30, characters=10_000))
        bounds = search.SearchLimits(FOUND, rows=30, characters=10_000, matches=30, rows_of_project=100)
        patch.setattr(search, "LIMITS", bounds)
        with filled_scene(backend, tmp_path_factory.mktemp("plans"), FILLS) as scene:
            yield scene


@pytest.mark.parametrize("row", JUDGED, ids=str)
def test_a_page_reads_little_more_than_it_shows(scene: Scene, row: Row) -> None:
    look(scene, row)


@pytest.fixture(scope="module")
def people(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Yield a scene in which one caller belongs to a few of very many organizations."""
    with filled_scene(backend, tmp_path_factory.mktemp("people"), (*filled.PEOPLE, *filled_people.IDENTITY)) as scene:
        yield scene


@pytest.mark.parametrize("row", rows_people.ROWS, ids=str)
def test_a_list_with_a_total_reads_only_the_counted_rows(people: Scene, row: Row) -> None:
    look(people, row)


def test_the_health_of_a_webhook_reads_a_limited_number_of_deliveries(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All inserted deliveries are of one day, and as many are pending."""
    monkeypatch.setattr(health, "SCAN_MAX", 20)
    monkeypatch.setattr(health, "now_ms", lambda: filled.START + 2 * filled.ROWS * 1000)
    row = Row("repository_deliveries_list")
    path = scene.path(row).removesuffix("/deliveries") + "/health"
    scene.callers["owner"].get(path)
    scene.server.asked.clear()
    found = scene.callers["owner"].get(path).json()
    assert (found["deliveries"], found["capped"], found["pending"], found["pending_capped"]) == (20, True, 20, True)
    assert found["last_failure"]["status_code"] == 500
    judge_all(scene, row, path)


SPARSE = (
    Row("list_project_tasks", {"finished": "true"}, finds=4),
    Row("list_project_tasks", {"label": "rare", "sort": "-title"}, finds=4),
    Row("list_project_tasks", {"priority": "low", "sort": "deadline"}, finds=4),
    Row("list_timesheets", {"billable": "true"}, finds=4),
)


@pytest.mark.parametrize("row", SPARSE, ids=str)
def test_sparse_matches_are_found_page_by_page(scene: Scene, row: Row) -> None:
    """A page ends when it has read its maximum number of rows, and the next page starts there. No row is skipped."""
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


def test_a_csv_table_of_sparse_time_entries_is_complete(scene: Scene) -> None:
    path = scene.path(Row("list_timesheets"))
    answer = scene.callers["owner"].get(path, params={"billable": "true"}, headers={"Accept": "text/csv"})
    assert len(answer.text.splitlines()) == 1 + 4


def _searched(caller: httpx.Client, **query: str) -> tuple[list[str], bool]:
    """Return the creation times of the results on all pages, and whether the results are incomplete."""
    made, told = list[str](), set[bool]()
    address = str(httpx.URL("/api/v1/search", params=query))
    while address:
        response = caller.get(address)
        assert response.status_code == 200, response.text
        made += [each["created_at"] for each in response.json()["results"]]
        told.add(response.json()["incomplete_results"])
        address = response.links.get("next", {}).get("url", "")
    [incomplete] = told
    return made, incomplete


def test_a_search_finds_the_newest_and_reports_that_there_are_more(scene: Scene) -> None:
    project = scene.places["project"]["project"]
    made, incomplete = _searched(scene.callers["owner"], q="common", type="task", per_page="2", project_id=project)
    assert incomplete
    assert made == sorted(made, reverse=True)
    newest = scene.callers["owner"].get(
        f"/api/v1/projects/{project}/tasks", params={"sort": "-created_at", "per_page": "20"}
    )
    common = [each for each in newest.json()["tasks"] if each["title"].startswith("common")]
    assert made == [each["created_at"] for each in common[:FOUND]]


@pytest.mark.parametrize("kind", ["task_comment", "file_comment"])
def test_invisible_results_are_not_shown_and_do_not_displace_visible_ones(scene: Scene, kind: str) -> None:
    client = scene.callers["client"]
    # Four of this project are not private, and thousands in the other project contain the word.
    made, incomplete = _searched(client, q="seldom", type=kind)
    assert (len(made), incomplete) == (4, False)
    assert _searched(client, q="common", type=kind) == ([], False)


def test_results_of_other_projects_do_not_displace_those_of_one(scene: Scene) -> None:
    made, incomplete = _searched(
        scene.callers["owner"], q="seldom", type="task", project_id=scene.places["project"]["project"]
    )
    assert (len(made), incomplete) == (4, False)
