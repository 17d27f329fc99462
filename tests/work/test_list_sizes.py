"""Lists are also limited by size, so that long texts of a client cannot exhaust the server's memory."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.work.scene import Scene
from tests.work.studio import JsonObject, Studio
from workhook.http.calls import Services
from workhook.work.board.tasks import column_tasks
from workhook.work.board.tasks.schemas import tasks
from workhook.work.discussion.schemas import file_comment_replies, file_comments, task_comments
from workhook.work.kernel.list_statements import PAGE_CHARS
from workhook.work.money.checkouts.schemas import service_checkouts
from workhook.work.money.credit_notes.schemas import credit_notes
from workhook.work.money.credits.schemas import task_credits
from workhook.work.money.invoices.schemas import invoices
from workhook.work.money.services.schemas import services as offers
from workhook.work.time.timesheets.schemas import timesheets

CHARS = 3_000_000
"""Characters per row. Three of five rows fit on a page because the first three exceed 8 MiB."""


def _comments(scene: Scene) -> str:
    path = f"/tasks/{scene.task()}/task_comments"
    for _ in range(5):
        scene.owner.post(path, json={"text": "Said"})
    return path


def _file_comments(scene: Scene) -> str:
    path = f"/files/{scene.file()}/file_comments"
    for _ in range(5):
        scene.reply(scene.owner.post(path, json={"text": "Said"})["id"])
    return path


def _five(what: str, path: str) -> Any:
    def make(scene: Scene) -> str:
        for _ in range(5):
            getattr(scene, what)()
        return scene.project_path + path if path else f"/services?organization={scene.organization}"

    return make


def _credit_notes(scene: Scene) -> str:
    path = f"/invoices/{scene.invoice('send')}/credit_notes"
    for _ in range(5):
        scene.owner.post(path, json={"total": 1, "reason": "Late"})
    return path


def _tasks(scene: Scene) -> str:
    column_id = scene.column()
    for _ in range(5):
        scene.task(column_id)
    return f"/columns/{column_id}/tasks"


LISTS = {
    "tasks": (_tasks, tasks.c.description),
    "task_comments": (_comments, task_comments.c.text),
    "file_comments": (_file_comments, file_comments.c.text),
    "replies": (_file_comments, file_comment_replies.c.body),
    "services": (_five("service", ""), offers.c.description),
    "service_checkouts": (_five("checkout", "/service_checkouts"), service_checkouts.c.unsubscribed_feedback),
    "credit_notes": (_credit_notes, credit_notes.c.reason),
    "invoices": (_five("invoice", "/invoices"), invoices.c.bill_to),
    "timesheets": (_five("timesheet", "/timesheets"), timesheets.c.notes),
    "task_credits": (_five("credit", "/task_credits"), task_credits.c.notes),
}


def _rows(answer: Any) -> list[JsonObject]:
    return answer if isinstance(answer, list) else next(each for each in answer.values() if isinstance(each, list))


@pytest.mark.parametrize("name", LISTS)
def test_a_page_is_limited_by_size(studio: Studio, name: str) -> None:
    make, column = LISTS[name]
    path = make(Scene(studio.owner, studio.project_id, studio.world.organization))
    whole = [each["id"] for each in _rows(studio.owner.get(path))]
    assert len(whole) == 5

    studio.server.execute(sa.update(column.table).values({column.name: sa.bindparam("text")}), {"text": "x" * CHARS})
    try:
        first = studio.owner.call("GET", path)
        assert [each["id"] for each in _rows(first.json())] == whole[:3]
        rest = studio.owner.http.get(first.links["next"]["url"])
        assert [each["id"] for each in _rows(rest.json())] == whole[3:]
        assert "next" not in rest.links
        one = studio.owner.call("GET", path, params={"per_page": 1, **_query(path)})
        assert [each["id"] for each in _rows(one.json())] == whole[:1]
        if name == "timesheets":  # CSV contains all rows, streamed in parts
            lines = studio.owner.call("GET", path, headers={"Accept": "text/csv"}).text.splitlines()
            assert [each.partition(",")[0] for each in lines[1:]] == whole
    finally:
        studio.server.execute(sa.update(column.table).values({column.name: "x"}))


def test_a_column_with_a_large_task_is_complete(studio: Studio) -> None:
    column = studio.column()
    long = "é" * 20_000
    assert len(long) > PAGE_CHARS / 1_000, "a thousand such tasks, which a page may have, would be too large"
    made = [studio.owner.new_task(column, description=text) for text in ("first", long, None)]
    path = f"/columns/{column}/tasks"
    first = studio.owner.call("GET", path, params={"per_page": 2})
    rest = studio.owner.http.get(first.links["next"]["url"])
    for found in (studio.owner.get(path)["tasks"], [*first.json()["tasks"], *rest.json()["tasks"]]):
        assert [each["id"] for each in found] == [each["id"] for each in made]
        assert [each["description"] for each in found] == ["first", long, None]
        assert [each["position"] for each in found] == [0, 1, 2]


def test_a_large_task_moved_while_reading_causes_a_retry(studio: Studio) -> None:
    column, other = studio.column(), studio.column()
    task_id = studio.owner.new_task(column, description="long")["id"]

    async def read(services: Services, rank: int, column_id: str) -> Any:
        seen = [(0, rank, task_id, 4)]  # the requested position, rank, ID and weight
        return await column_tasks._with_heavy(services.database, column_id, seen, 3)

    [whole] = studio.server.run(lambda services: read(services, 0, column))
    assert whole[:3] == (0, 0, task_id)
    assert "long" in whole
    assert studio.server.run(lambda services: read(services, 1, column)) is None
    assert studio.server.run(lambda services: read(services, 0, other)) is None


def _query(path: str) -> dict[str, str]:
    return dict(each.split("=") for each in path.partition("?")[2].split("&") if each)
