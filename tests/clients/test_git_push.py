"""A real `git push` to a bare repository with the hook installed: its deliveries, and pushes while the server is
down."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients import octokit
from tests.clients.support import SECRET, history
from tests.harness.receiver import Received, Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World

pytestmark = pytest.mark.one_database

NewServer = Callable[..., Server]

ZERO = "0" * 40


@pytest.fixture(autouse=True)
def git_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Isolate Git from the settings of the machine and the user who runs the tests."""
    for name in os.environ:
        if name.startswith(("GIT_", "WORKHOOK_")) or name == "REMOTE_USER":
            monkeypatch.delenv(name)
    person = {"NAME": "Ada Löwe", "EMAIL": "ada@example.com"}
    for name, value in person.items():
        monkeypatch.setenv(f"GIT_AUTHOR_{name}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WORKHOOK_PUSHER", "octo")


def command(*arguments: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(arguments, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout.strip() + done.stderr.strip()


class Repository:
    """A bare repository with the hook installed, and a clone to push from."""

    def __init__(self, folder: Path, server: Server, world: World, *more: str) -> None:
        self.bare, self.clone = folder / "website.git", folder / "clone"
        command("git", "init", "--quiet", "--bare", "--initial-branch=main", self.bare)
        command("git", "clone", "--quiet", self.bare, self.clone)
        where = ["--git-dir", str(self.bare), "--repository", world.full_name]
        flags = [f"--{name.replace('_', '-')}={server.settings[name]}" for name in ("data", "database_url")
                 if name in server.settings]  # fmt: skip
        self.said = command(sys.executable, "-m", "workhook", "git-hook", "install", *where, *flags, *more)

    def git(self, *arguments: str) -> str:
        return command("git", *arguments, cwd=self.clone)

    def commit(self, name: str) -> str:
        (self.clone / name).write_text(name)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", f"Add {name}")
        return self.git("rev-parse", "HEAD")

    def push(self, *refs: str) -> str:
        """Push and return the output that the user sees."""
        return self.git("push", *(refs or ("origin", "main")))


@pytest.fixture
def workplace(new_server: NewServer) -> tuple[Server, World]:
    server = new_server()
    return server, server.world()


def create_hook(server: Server, world: World, receiver: Receiver) -> str:
    # One delivery at a time, because the order of concurrent connections is not guaranteed.
    config = {"url": receiver.url, "content_type": "json", "secret": SECRET, "max_concurrency": "1"}
    with server.client(world.token) as client:
        answer = client.post(f"{world.repo_path}/hooks", json={"config": config, "events": ["push"]})
        assert answer.status_code == 201, answer.text
        return f"{world.repo_path}/hooks/{answer.json()['id']}"


def pushes(receiver: Receiver, number: int) -> list[Received]:
    receiver.wait_for(lambda requests: len([each for each in requests if each.event == "push"]) >= number)
    found = receiver.events("push")
    assert len(found) == number
    return found


def test_a_push_reaches_the_receiver(workplace: tuple[Server, World], receiver: Receiver, tmp_path: Path) -> None:
    server, world = workplace
    hook = create_hook(server, world, receiver)
    repository = Repository(tmp_path, server, world)
    ids = [repository.commit(name) for name in ("one.txt", "zwei-ß.txt", "three.txt")]
    repository.git("tag", "--annotate", "--message", "First", "v1.0")
    repository.push("--atomic", "origin", "main", "v1.0")

    received = pushes(receiver, 2)
    assert octokit.verified(received, SECRET) == [True, True]
    assert octokit.verified(received, "another secret") == [False, False]
    branch, tag = (each.payload() for each in received)
    assert (branch["ref"], branch["before"], branch["after"]) == ("refs/heads/main", ZERO, ids[2])
    assert (branch["created"], branch["deleted"], branch["forced"]) == (True, False, False)
    assert [commit["id"] for commit in branch["commits"]] == ids
    assert [commit["added"] for commit in branch["commits"]] == [["one.txt"], ["zwei-ß.txt"], ["three.txt"]]
    assert branch["head_commit"]["id"] == ids[2]
    assert branch["head_commit"]["message"] == "Add three.txt"
    assert branch["head_commit"]["author"]["name"] == "Ada Löwe"
    assert branch["pusher"]["name"] == "octo"
    assert branch["repository"]["full_name"] == world.full_name
    assert branch["organization"]["login"] == world.organization
    assert (tag["ref"], tag["created"]) == ("refs/tags/v1.0", True)
    assert tag["head_commit"]["id"] == ids[2]

    first = received[0]
    recorded = history(server, world, hook, 3)
    delivery = next(each for each in recorded if each["guid"] == first.guid)
    assert (delivery["event"], delivery["status"], delivery["redelivery"]) == ("push", "OK", False)
    with server.client(world.token) as client:
        detail = client.get(f"{hook}/deliveries/{delivery['id']}").json()
        assert detail["request"]["payload"] == branch
        assert client.post(f"{hook}/deliveries/{delivery['id']}/attempts").status_code == 202
    again = pushes(receiver, 3)[2]
    assert (again.guid, again.body) == (first.guid, first.body)
    assert octokit.verified([again], SECRET) == [True]
    newest = history(server, world, hook, 4)[0]
    assert (newest["guid"], newest["redelivery"]) == (first.guid, True)


@pytest.mark.whole
def test_later_pushes_and_deleted_branches_reach_the_receiver(
    workplace: tuple[Server, World], receiver: Receiver, tmp_path: Path
) -> None:
    server, world = workplace
    create_hook(server, world, receiver)
    repository = Repository(tmp_path, server, world)
    before = repository.commit("one.txt")
    repository.push()
    pushes(receiver, 1)
    repository.git("checkout", "--quiet", "-b", "topic")
    after = repository.commit("two.txt")
    repository.push("origin", "topic")
    topic = pushes(receiver, 2)[1].payload()
    assert [commit["id"] for commit in topic["commits"]] == [after], "only what no other branch has"
    assert topic["base_ref"] is None or topic["base_ref"] == "refs/heads/main"
    repository.git("commit", "--quiet", "--amend", "--message", "Add two, again")
    repository.push("--force", "origin", "topic")
    forced = pushes(receiver, 3)[2].payload()
    assert (forced["before"], forced["forced"]) == (after, True)
    repository.push("origin", ":topic")
    deleted = pushes(receiver, 4)[3].payload()
    assert (deleted["ref"], deleted["deleted"], deleted["after"]) == ("refs/heads/topic", True, ZERO)
    assert (deleted["commits"], deleted["head_commit"]) == ([], None)
    assert before != after


@pytest.mark.whole
def test_a_push_while_the_server_is_down_is_delivered_later(
    new_server: NewServer, receiver: Receiver, tmp_path: Path
) -> None:
    server = new_server()
    world = server.world()
    create_hook(server, world, receiver)
    repository = Repository(tmp_path, server, world, "--url", server.url)
    port = server.url.rpartition(":")[2]
    first = repository.commit("one.txt")
    repository.push()
    pushes(receiver, 1)

    assert server.stop() == 0, server.log()
    second = repository.commit("two.txt")
    said = repository.push()
    third = repository.commit("three.txt")
    said += repository.push()
    assert "main -> main" in said
    assert command("git", "rev-parse", "main", cwd=repository.bare) == third, "the pushes have succeeded"
    assert waiting(repository.bare) == 2

    server = new_server(command=("serve", "--port", port))
    fourth = repository.commit("four.txt")
    repository.push()
    payloads: list[dict[str, Any]] = [each.payload() for each in pushes(receiver, 4)]
    assert [payload["after"] for payload in payloads] == [first, second, third, fourth], "in order"
    assert [payload["before"] for payload in payloads] == [ZERO, first, second, third]
    assert [[commit["id"] for commit in payload["commits"]] for payload in payloads] == [
        [first],
        [second],
        [third],
        [fourth],
    ]
    # It is delivered once: nothing is left in the spool or in flight.
    until(lambda: waiting(repository.bare) == 0)
    with server.client(world.token) as client:
        hooks = client.get(f"{world.repo_path}/hooks").json()
        hook = f"{world.repo_path}/hooks/{hooks[0]['id']}"
        recorded = history(server, world, hook, 5)
    assert sorted(each["event"] for each in recorded) == ["ping", "push", "push", "push", "push"]
    pushes(receiver, 4)


def waiting(bare: Path) -> int:
    """Return the number of pushes in the spool."""
    spool = bare / "workhook" / "spool"
    return len([each for each in spool.iterdir() if each.suffix == ".json"])
