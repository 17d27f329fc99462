"""The how-to page's blocks do what the page says of them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Shell, new_machine, parts
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
    token = json.loads(made.stdout)["token"]
    with server.client(token) as client:
        for url in (receiver.url, f"{receiver.url}/second"):
            hook = {"config": {"url": url, "content_type": "json", "retries": "0"}, "events": ["*"]}
            hook_id = client.post("/repos/acme/website/hooks", json=hook).raise_for_status().json()["id"]
    known = {"W": server.url, "A": f"Authorization: Bearer {token}", "HOOK": str(hook_id)}
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
