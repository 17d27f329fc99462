"""Line-based formats keep one record per line even for readers that split at Unicode line separators."""

from __future__ import annotations

import pytest

from tests.cli.cli_kit import Cli
from tests.harness.server import Server
from tests.harness.world import must
from tests.work.studio import Studio
from workhook.core import json
from workhook.http.calls import Services
from workhook.identity import audit, queries
from workhook.work.history.activity.live import event_frame

pytestmark = pytest.mark.one_database

BREAKS = "a\u2028b\u2029c\u0085d"


@pytest.fixture
def logged(studio: Studio) -> Studio:
    """Add an audit log entry containing every such character, and return the studio."""

    async def record(services: Services) -> None:
        account = must(await queries.find_account(services.database, studio.world.organization))
        async with services.database.transaction() as tx:
            await audit.record(tx, None, "project.edit", "x", account_id=account.id, detail={"title": {"to": BREAKS}})

    studio.server.run(record)
    return studio


def _titles(lines: list[str]) -> list[str]:
    entries = [json.decode(each) for each in lines]
    return [each["data"]["title"]["to"] for each in entries if each["action"] == "project.edit" and each["data"]]


def test_the_audit_log_has_one_entry_per_line(logged: Studio) -> None:
    url = f"{logged.world.org_path}/audit-log"
    text = logged.owner.http.get(url, headers={"Accept": "application/x-ndjson"}).text
    assert _titles(text.splitlines()) == [BREAKS]


def test_the_exported_audit_log_has_one_entry_per_line(logged: Studio, server: Server) -> None:
    output = server.data / "audit.jsonl"
    cli = Cli(server.data, {name: text for name, text in server.settings.items() if name == "database_url"})
    cli.run("audit", "export", str(output), "--organization", logged.world.organization)
    assert _titles(output.read_text(encoding="utf-8").splitlines()) == [BREAKS]


def test_a_stream_event_has_one_line_of_data() -> None:
    payload = json.encode({"task": {"title": BREAKS}})
    row = {"id": 1, "name": "task", "action": "edited", "created_at": 0, "published": False, "payload": payload}
    written = event_frame(row)
    [data] = [line for line in written.decode().splitlines() if line.startswith("data: ")]
    assert json.decode(data.removeprefix("data: "))["payload"]["task"]["title"] == BREAKS
    assert len(written.decode().splitlines()) == 4, "and the empty line that ends it"


def test_csv_cells_use_only_one_kind_of_line_break(studio: Studio) -> None:
    task_id = studio.task()
    body = {"task_id": task_id, "duration": 60_000, "notes": BREAKS}
    studio.owner.post(f"{studio.project}/timesheets", json=body)
    table = studio.owner.call("GET", f"{studio.project}/timesheets", headers={"Accept": "text/csv"}).text
    assert '"a\nb\nc\nd"' in table
