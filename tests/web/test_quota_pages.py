"""Limits of an organization apply to pages as they do to the API, with their own messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.databases import Databases
from tests.harness.server import Server, SharedServer
from tests.web.studio import Studio, send, text_of

ROWS = 60


@pytest.fixture(scope="module")
def server(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server on which an organization may have only a few records."""
    folder = tmp_path_factory.mktemp("quota")
    server = SharedServer(folder, {**backend.new(folder), "organization_max_rows": ROWS}).start()
    yield server
    server.close()


def fill(studio: Studio) -> None:
    """Fill the organization up to its limit with events, each of which counts as one row."""
    login = studio.team.world.organization
    while studio.call("GET", f"/organizations/{login}/usage")["usage"]["rows"] < ROWS:
        event = {"event": "push", "payload": {"ref": "refs/heads/main"}}
        assert studio.api.post(f"{studio.team.world.repo_path}/events", json=event).status_code == 202


def test_a_page_cannot_exceed_the_limit_but_can_still_change_records(studio: Studio) -> None:
    column = studio.add_column("To do")
    task = studio.add_task(column, "There")
    fill(studio)
    base = studio.base
    refused = [
        send(studio.owner, f"{base}/columns", title="New"),
        send(studio.owner, f"{base}/columns/{column}/tasks", title="New"),
        send(studio.owner, f"{base}/tasks/{task}/comments", text="New"),
        send(studio.owner, f"{base}/tasks/{task}/duplicate"),
        send(studio.owner, f"{base}/folders", title="New"),
        send(studio.owner, f"{base}/time/start", task_id=task),
        studio.owner.fill(f"{base}/webhooks/new", f"{base}/webhooks", url="https://example.com/"),
        send(studio.owner, f"/{studio.team.world.organization}", title="New"),
    ]
    for answer in refused:
        assert answer.status_code in (403, 409, 422), answer.text
        assert f"at most {ROWS} records" in text_of(answer.text), text_of(answer.text)
        assert "organization_max_rows" not in answer.text
    studio.owner.client.headers["Accept-Language"] = "de"
    answer = send(studio.owner, f"{base}/columns", title="New")
    assert f"Limit von {ROWS} Einträgen" in text_of(answer.text), text_of(answer.text)
    assert send(studio.owner, f"{base}/tasks/{task}/edit", field="title", title="Other").status_code == 303
    assert studio.task(task)["title"] == "Other"
