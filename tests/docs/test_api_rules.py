"""The rules that the API page states for every operation, tried on some of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import Shell, blocks, new_machine
from tests.harness.server import Server

pytestmark = pytest.mark.one_database

PAGES, ACROSS, ONCE, CONDITION = blocks("docs/integrators/api.md", "sh")
[REFUSAL] = blocks("docs/integrators/api.md", "json")


@pytest.fixture
def shell(new_server: Callable[..., Server], tmp_path: Path) -> Shell:
    server = new_server()
    world = server.world()
    with server.client(world.token) as client:
        project = client.post("/api/v1/projects", json={"title": "Website"}).raise_for_status().json()["project"]["id"]
    known = {"A": f"Authorization: Bearer {world.token}", "API": f"{server.url}/api/v1", "PROJECT": project}
    return Shell(tmp_path, new_machine(tmp_path) | known)


def test_the_rules_apply(shell: Shell) -> None:
    try:
        made = shell.run(ONCE)
        assert json.loads(made)["project"]["title"] == "Shop"
        assert json.loads(shell.run(ONCE)) == json.loads(made)
        assert json.loads(shell.run(ONCE.replace("Shop", "Show")))["errors"][0]["field"] == "Idempotency-Key"
        pages = shell.run(PAGES).lower()
        assert 'rel="next"' in pages
        assert "cursor=" in pages
        assert json.loads(shell.run(ACROSS)) == {"tasks": [], "success": True}
        assert json.loads(shell.run(CONDITION))["project"]["title"] == "Website 2"
        again = shell.run(CONDITION.split("\n", 1)[1].replace("Website 2", "Website 3"))
        assert json.loads(again)["code"] == "precondition_failed"
        refused(shell, "unknown", '"$API/projects?colour=red"')
        refused(shell, "per_page", '"$API/projects?per_page=101"')
        both = shell.run('curl -sS -H "$A" "$API/projects?title=Query" -d \'{"title": "Body"}\'')
        assert json.loads(both)["project"]["title"] == "Body"
        missing = json.loads(shell.run("curl -sS -H \"$A\" $API/projects -d '{}'"))
        assert {**missing, "request_id": "…"} == json.loads(REFUSAL)
        column = 'curl -sS -H "$A" $API/projects/$PROJECT/columns -d \'{"title": " ", "stage": "somewhere"}\''
        assert {each["field"] for each in json.loads(shell.run(column))["errors"]} == {"title", "stage"}
    finally:
        shell.stop()


def refused(shell: Shell, word: str, address: str) -> None:
    answer = json.loads(shell.run(f'curl -sS -H "$A" {address}'))
    assert set(answer) == {"success", "code", "message", "errors", "request_id"}
    assert answer["success"] is False
    assert word in json.dumps(answer["errors"])
