"""The how-to page's blocks do what the page says of them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Program, Shell, new_machine, parts
from tests.harness.receiver import Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until
from workhook.core.clock import now_ms, to_millis_text

PAGE = ROOT / "docs" / "how-to" / "README.md"
HOUR_MS = 3_600_000
BLOCKS = [piece for kind, piece in parts(PAGE) if kind == "sh"]


def block(beginning: str) -> str:
    """The only block that begins so."""
    [found] = [piece for piece in BLOCKS if piece.startswith(beginning)]
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "data", {}).start()
    yield server
    server.close()


@pytest.fixture
def shell(server: Server, receiver: Receiver, tmp_path: Path) -> Iterator[Shell]:
    """Where $W, $A and $HOOK are what the page says, with two webhooks for everything."""
    environment = new_machine(tmp_path) | {"WORKHOOK_DATA": str(server.data)}
    setup = "workhook setup --organization acme --owner octo --email octo@example.com --project Website --json"
    made = subprocess.run(setup.split(), env=environment, capture_output=True, text=True, check=True)
    token, project = (json.loads(made.stdout)[each] for each in ("token", "project_id"))
    with server.client(token) as client:
        column = client.post(f"/api/v1/projects/{project}/columns", json={"title": "To do"}).json()["column"]["id"]
        task = client.post(f"/api/v1/columns/{column}/tasks", json={"title": "Logo"}).json()["task"]["id"]
        for url in (receiver.url, f"{receiver.url}/second"):
            hook = {"config": {"url": url, "content_type": "json", "retries": "0"}, "events": ["*"]}
            hook_id = client.post("/repos/acme/website/hooks", json=hook).raise_for_status().json()["id"]
    known = {"W": server.url, "A": f"Authorization: Bearer {token}", "HOOK": str(hook_id)}
    known |= {"API": f"{server.url}/api/v1", "PROJECT": project, "COLUMN": column, "TASK": task}
    shell = Shell(tmp_path, environment | known)
    yield shell
    shell.stop()


def test_every_block_is_tried_below() -> None:
    tried = [
        block(each)
        for each in (
            'curl -H "$A" $W/repos/acme/website/events',
            "workhook git-hook install",
            'curl -X PATCH -H "$A" $W/repos/acme/website/hooks/$HOOK/config',
            'curl -X POST -H "$A" $W/repos/acme/website/hooks/$HOOK/deliveries/redeliver',
            'curl -H "$A" $API/projects/$PROJECT/clients',
            "workhook token create",
            'curl -N -H "$A" $API/projects/$PROJECT/stream',
            'curl -N -H "$A" -H "Last-Event-ID: 4711" $API/projects/$PROJECT/stream',
            'curl -H "$A" -H "Idempotency-Key: monday-7" $API/tasks/bulk',
        )
    ]
    assert sorted(tried) == sorted(BLOCKS)


def answer(said: str) -> object:
    """The JSON among what curl says of its progress."""
    return json.loads(said[said.index("{") : said.rindex("}") + 1])


def test_publish(shell: Shell, receiver: Receiver) -> None:
    publish = block('curl -H "$A" $W/repos/acme/website/events')
    assert answer(shell.run(publish)) == {"id": "ci-4711", "deliveries": 2}
    assert answer(shell.run(publish)) == {"id": "ci-4711", "deliveries": 0}
    receiver.wait_for(lambda requests: len([each for each in requests if each.event == "deployment_status"]) == 2)


def test_connect_a_git_server(shell: Shell, tmp_path: Path) -> None:
    bare = tmp_path / "website.git"
    shell.run(f"git init --quiet --bare {bare}")
    assert "installed" in shell.run(block("workhook git-hook").replace("/srv/git/website.git", str(bare)))
    assert (bare / "hooks" / "post-receive").exists()


def test_rotate(shell: Shell, receiver: Receiver) -> None:
    assert '"secret":"********"' in shell.run(block('curl -X PATCH -H "$A"'))
    shell.run('curl -s -X POST -H "$A" $W/repos/acme/website/hooks/$HOOK/pings')
    receiver.wait_for(lambda requests: any("x-hub-signature-256" in each.headers for each in requests))


def test_replay(shell: Shell, receiver: Receiver) -> None:
    receiver.wait_for(2)
    receiver.reply = lambda received: Reply(500)
    shell.run(block('curl -H "$A" $W/repos/acme/website/events'))
    deliveries = 'curl -s -H "$A" "$W/repos/acme/website/hooks/$HOOK/deliveries?status=failure"'
    until(lambda: "deployment_status" in shell.run(deliveries))
    receiver.reply = lambda received: Reply(200)
    replay = block('curl -X POST -H "$A"')
    written = re.search(r'"since": "([^"]+)"', replay)
    assert written
    replay = replay.replace(written[1], to_millis_text(now_ms() - HOUR_MS))
    assert answer(shell.run(replay)) == {"queued": 1}
    again = receiver.wait_for(lambda requests: len([e for e in requests if e.event == "deployment_status"]) == 3)
    assert again[-1].guid in {each.guid for each in again[:-1]}


def test_let_a_client_look(shell: Shell) -> None:
    invited = answer(shell.run(block('curl -H "$A" $API/projects/$PROJECT/clients')))
    assert isinstance(invited, dict)
    assert invited["client"]["username"] == "ada"
    [token] = re.findall(r"whp_\w+", shell.run(block("workhook token create")))

    def status(path: str, token: str = token) -> str:
        return shell.run(
            f'curl -s -o /dev/null -w "%{{http_code}}" -H "Authorization: Bearer {token}" $API{path}'
        ).strip()

    seen = {each: status(f"/projects/$PROJECT/{each}") for each in ("columns", "tasks", "files", "invoices")}
    assert set(seen.values()) == {"200"}
    assert status("/projects/$PROJECT/service_checkouts") == "200"
    hidden = {each: status(f"/projects/$PROJECT/{each}") for each in ("timesheets", "task_credits")}
    assert set(hidden.values()) == {"404"}
    assert status("/projects/$PROJECT/activity") == "403"
    shell.run(f'curl -s -X DELETE -H "$A" $API/clients/{invited["client"]["id"]}')
    assert status("/projects/$PROJECT/tasks") == "404"


def test_follow_a_project(shell: Shell, tmp_path: Path) -> None:
    first = Program(["bash", "-c", block('curl -N -H "$A" $API')], tmp_path, shell.environment)
    try:
        first.wait_for("^id: ")
        shell.run('curl -s -X PATCH -H "$A" $API/tasks/$TASK -d \'{"title": "Signet"}\'')
        first.wait_for("^event: task")
        number = first.wait_for("^id: ", first.lines.index("event: task\n") - 1).split()[1]
        assert '"Signet"' in first.wait_for("^data: ")
    finally:
        first.stop()
    shell.run('curl -s -X PATCH -H "$A" $API/tasks/$TASK -d \'{"title": "Mark"}\'')
    again = Program(
        ["bash", "-c", block('curl -N -H "$A" -H "Last').replace("4711", number)], tmp_path, shell.environment
    )
    try:
        assert '"Mark"' in again.wait_for("^data: ")
    finally:
        again.stop()


def test_change_many(shell: Shell) -> None:
    bulk = block('curl -H "$A" -H "Idempotency-Key')
    done = answer(shell.run(bulk))
    assert isinstance(done, dict)
    assert [each["title"] for each in done["tasks"]] == ["Photos", "Logo", "Logo"]
    assert done["tasks"][1]["priority"] == "high"
    assert answer(shell.run(bulk)) == done
    wrong = answer(shell.run(bulk.replace("monday-7", "monday-8").replace('"High"', '"Highest"')))
    assert isinstance(wrong, dict)
    assert wrong["errors"][0]["field"] == "operations[1].priority"
