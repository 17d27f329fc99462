"""The row quota of an organization: what counts, what is refused and what still works."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness.world import must
from tests.work.paper import metric
from tests.work.requests_kit import TABLE
from tests.work.scene import Scene
from tests.work.studio import Studio
from workhook.events import outbox
from workhook.events.tables import events
from workhook.http.calls import Services
from workhook.identity.audit import action_of
from workhook.identity.queries import find_account
from workhook.storage.metadata import metadata
from workhook.work.kernel.quota import counted, makes_records
from workhook.work.operations import OPERATIONS

ROWS = 100


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """Limit each organization to few records and 100 MiB."""
    return {"organization_max_rows": ROWS, "organization_max_mb": 100}


def usage(studio: Studio) -> dict[str, Any]:
    found: dict[str, Any] = studio.owner.get(f"/organizations/{studio.world.organization}/usage")["usage"]
    return found


def publish(studio: Studio) -> Any:
    event = {"event": "push", "payload": {"ref": "refs/heads/main"}}
    return studio.owner.http.post(f"{studio.world.repo_path}/events", json=event)


def fill(studio: Studio) -> None:
    """Use up the quota. A task takes one row and its event another."""
    column_id = studio.owner.post(f"{studio.project}/columns", json={"title": "New"})["column"]["id"]
    left = ROWS - usage(studio)["rows"]
    create = {"action": "create", "column_id": column_id, "title": "New"}
    studio.owner.post("/tasks/bulk", json={"operations": [create] * (left // 2)})
    if left % 2:
        assert publish(studio).status_code == 202
    assert usage(studio)["rows"] == ROWS


def test_the_last_row_of_the_quota_can_be_used(studio: Studio) -> None:
    fill(studio)
    body = studio.owner.refused(409, "POST", f"{studio.project}/columns", json={"title": "New"})
    assert body["code"] == "row_quota"
    assert f"{ROWS} records (organization_max_rows): it has {ROWS}" in body["message"]
    assert usage(studio)["rows"] == ROWS, "nothing of the refused request exists"
    assert metric(studio, "workhook_quota_refusals_total", quota="rows") >= 1
    assert metric(studio, "workhook_quota_organizations", state="full") >= 1


def test_the_last_row_fits_an_event_but_not_a_record(studio: Studio) -> None:
    while ROWS - usage(studio)["rows"] > 1:
        assert publish(studio).status_code == 202
    studio.owner.refused(409, "POST", f"{studio.project}/columns", json={"title": "New"})
    assert publish(studio).status_code == 202
    assert publish(studio).status_code == 403


def test_every_operation_that_creates_records_is_refused(studio: Studio) -> None:
    scene = Scene(studio.owner, studio.world.project_id, studio.world.organization)
    named = {f"{each.method} " + re.sub(r"\{\w+\}", "{}", each.path): action_of(each) for each in OPERATIONS}
    calls = []
    for key, (_, made, body) in TABLE.items():
        if makes_records(named[key]):
            ids = made(scene)
            given: Any = body(scene) if callable(body) else body
            path = key.split()[1].format(*(ids if isinstance(ids, tuple) else (ids,)))
            if key == "POST /projects":
                given = {**given, "organization": studio.world.organization}
            calls.append((named[key], path, given if {"params", "files"} & set(given) else {"json": given}))
    assert {name for name, _, _ in calls} == {each for each in named.values() if makes_records(each)}
    fill(studio)
    for name, path, given in calls:
        response = studio.owner.call("POST", path, **given)
        assert (response.status_code, response.json()["code"]) == (409, "row_quota"), f"{name}: {response.text}"
    assert usage(studio)["rows"] == ROWS


def test_the_webhook_api_refuses_in_its_own_format(studio: Studio) -> None:
    hook = {"name": "web", "events": ["push"], "config": {"url": "http://127.0.0.1:9/"}}
    hooks = f"{studio.world.repo_path}/hooks"
    made = studio.owner.http.post(hooks, json=hook).raise_for_status().json()["id"]
    fill(studio)
    answers = [
        publish(studio),
        studio.owner.http.post(f"{studio.world.repo_path}/dispatches", json={"event_type": "go"}),
        studio.owner.http.post(f"{hooks}/{made}/pings"),
        studio.owner.http.post(f"{hooks}/{made}/tests"),
        studio.owner.http.post(hooks, json={**hook, "config": {"url": "http://127.0.0.1:9/other"}}),
    ]
    for answer in answers:
        assert answer.status_code == 403, answer.text
        assert "organization_max_rows" in answer.json()["message"]
        assert answer.json()["status"] == "403"
    assert [each["id"] for each in studio.owner.http.get(hooks).json()] == [made]


def test_existing_records_can_be_changed_ended_deleted_and_restored(studio: Studio) -> None:
    scene = Scene(studio.owner, studio.world.project_id, studio.world.organization)
    column_id, other = scene.column(), scene.column()
    task_id, file_id, timer = scene.task(column_id), scene.file(), scene.running()
    fill(studio)
    studio.owner.patch(f"/tasks/{task_id}", json={"title": "Else", "column_id": other})
    studio.owner.patch(f"/columns/{other}", json={"start_timer": True})
    studio.owner.patch(f"/tasks/{task_id}", json={"column_id": column_id})
    studio.owner.patch(f"/tasks/{task_id}", json={"column_id": other})  # starts its timer
    studio.owner.post("/tasks/bulk", json={"operations": [{"action": "edit", "id": task_id, "title": "Bulk"}]})
    timers = studio.owner.get(f"{studio.project}/timesheets")["timesheets"]
    assert {each["id"] for each in timers} > {timer}
    studio.owner.post(f"/timesheets/{timer}/finish")
    for path in (f"/tasks/{task_id}", f"/files/{file_id}"):
        studio.owner.delete(path)
        studio.owner.post(f"{path}/restore")
    assert usage(studio)["rows"] > ROWS
    studio.owner.refused(409, "POST", f"/columns/{other}/tasks", json={"title": "New"})
    bulk = {"operations": [{"action": "create", "column_id": other, "title": "New"}]}
    studio.owner.refused(409, "POST", "/tasks/bulk", json=bulk)


def test_a_client_is_not_told_the_usage(studio: Studio) -> None:
    column_id = Scene(studio.owner, studio.world.project_id, studio.world.organization).column()
    _ = studio.client
    fill(studio)
    body = studio.client.refused(409, "POST", f"/columns/{column_id}/tasks", json={"title": "New"})
    assert (body["code"], "it has" in body["message"]) == ("row_quota", False)


def test_other_organizations_are_unaffected(studio: Studio, elsewhere: Studio) -> None:
    fill(studio)
    elsewhere.owner.post(f"{elsewhere.project}/columns", json={"title": "New"})


def test_automatic_changes_still_work(studio: Studio) -> None:
    fill(studio)

    async def happen(services: Services) -> None:
        account = must(await find_account(services.database, studio.world.organization))
        async with services.database.transaction() as tx:
            outbox.add(tx, [outbox.Draft(account.id, None, "invoice", "created", {})])

    studio.server.run(happen)
    assert usage(studio)["rows"] == ROWS + 1


def test_owners_can_see_the_usage(studio: Studio) -> None:
    path = f"/organizations/{studio.world.organization}/usage"
    before = studio.owner.get(path)
    assert set(before) == {"success", "usage"}
    assert set(before["usage"]) == {"bytes", "bytes_limit", "rows", "rows_limit", "counted_at"}
    assert (before["usage"]["bytes_limit"], before["usage"]["rows_limit"]) == (100 * 2**20, ROWS)
    studio.owner.post(f"{studio.project}/files", files={"file": ("a.bin", b"a" * 1000)})
    assert usage(studio)["rows"] == before["usage"]["rows"] + 2
    assert usage(studio)["bytes"] > before["usage"]["bytes"] + 1000
    own = studio.owner.get(f"/organizations/{studio.world.owner}/usage")["usage"]
    assert (own["rows"], own["bytes"], own["rows_limit"]) == (0, 0, ROWS)
    studio.member.refused(404, "GET", f"/organizations/{studio.world.owner}/usage")


def test_every_record_is_counted(studio: Studio) -> None:
    """Compare with a count of the whole tables."""
    scene = Scene(studio.owner, studio.world.project_id, studio.world.organization, studio.member.login)
    scene.task()
    scene.reply(scene.file_comment())
    scene.folder()
    scene.credit()
    studio.owner.post("/services", json={"title": "Care", "organization": studio.world.organization})

    async def read(services: Services) -> tuple[int, int]:
        account = must(await find_account(services.database, studio.world.organization))
        projects = metadata.tables["projects"]
        found = await services.database.fetch_all(sa.select(projects.c.repository_id, projects.c.account_id))
        mine = {row["repository_id"] for row in found if row["account_id"] == account.id}
        rows = 0
        for name, way in counted().items():
            column = metadata.tables[name].c[way]
            belongs = {account.id} if way == "account_id" else mine
            rows += sum(row[way] in belongs for row in await services.database.fetch_all(sa.select(column)))
        sizes = await services.database.fetch_all(sa.select(events.c.account_id, events.c.size))
        here = [row["size"] for row in sizes if row["account_id"] == account.id]
        return rows + len(here), sum(here)

    rows, event_bytes = studio.server.run(read)
    shown = usage(studio)
    assert shown["rows"] == rows
    assert shown["bytes"] == event_bytes + sum(
        each["size"] for each in studio.owner.get(f"{studio.project}/files")["files"]
    )
