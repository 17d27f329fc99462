"""`workhook deliveries list --follow` prints each delivery once, as soon as it exists."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest

from tests.cli.cli_kit import Cli
from tests.cli.running import Running
from tests.harness.databases import Databases
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until


class Site:
    """A server with a repository that has a webhook."""

    def __init__(self, server: Server, cli: Cli, receiver: Receiver) -> None:
        self.cli, self.receiver = cli, receiver
        self.client = server.client(cli.setup("--project", "Website")["token"])
        self.hook = self.add_hook("one")

    def add_hook(self, path: str) -> int:
        """Add a webhook and wait until its ping is delivered."""
        hook = {"config": {"url": f"{self.receiver.url}/{path}"}, "events": ["push", "deployment_status"]}
        made = self.client.post("/repos/acme/website/hooks", json=hook).raise_for_status().json()
        until(lambda: self.client.get(f"/repos/acme/website/hooks/{made['id']}/deliveries").json())
        return int(made["id"])

    def publish(self, event: str = "push", **more: str) -> None:
        body = {"event": event, "payload": {}, **more}
        self.client.post("/repos/acme/website/events", json=body).raise_for_status()


@contextmanager
def followed(site: Site, *words: str) -> Iterator[Running]:
    command = Running(site.cli, "deliveries", "list", "--follow", *words)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            command.process.kill()
            command.process.wait(30)


@pytest.fixture
def site(backend: Databases, receiver: Receiver, tmp_path: Path) -> Iterator[Site]:
    settings = backend.new(tmp_path / "data")
    server = Server(tmp_path / "data", settings).start()
    made = Site(server, Cli(tmp_path / "data", settings), receiver)
    yield made
    made.client.close()
    server.close()
    backend.drop(settings)


def test_existing_deliveries_are_shown_first_and_new_ones_follow(site: Site) -> None:
    with followed(site, "--repository", "acme/website", "--json") as command:
        [ping] = command.rows(1)
        assert (ping["event"], ping["hook_id"], ping["status_code"]) == ("ping", site.hook, 200)
        site.publish("deployment_status", action="created")
        _, second = command.rows(2)
        assert (second["event"], second["action"]) == ("deployment_status", "created")
        listed = site.cli.json("deliveries", "list", "--hook", str(site.hook))
        assert listed == [second, ping]
        another = site.add_hook("another")  # did not exist when the command started
        site.publish()
        rows = command.rows(5)
        assert [(each["event"], each["hook_id"]) for each in rows[2:3]] == [("ping", another)]
        assert sorted((each["event"], each["hook_id"]) for each in rows[3:]) == [("push", site.hook), ("push", another)]
        assert command.end() == 0
    assert len(command.lines) == 5


def test_text_output_has_one_line_per_delivery(site: Site) -> None:
    site.publish("deployment_status", action="created")
    until(lambda: len(site.receiver.requests) == 2)
    with followed(site, "--hook", str(site.hook), "--event", "deployment_status") as command:
        [line] = command.wait_for(1)
        assert f" {site.hook} " in line
        assert " deployment_status.created " in line
        assert line.endswith("OK\n")
        [delivery] = site.cli.json("deliveries", "list", "--hook", str(site.hook), "--event", "deployment_status")
        site.publish()  # filtered out
        site.cli.json("deliveries", "redeliver", str(delivery["id"]))
        assert command.wait_for(2)[1].endswith("OK (redelivery)\n")
        assert command.end() == 0
        assert "Traceback" not in "".join(command.lines)
    assert len(command.lines) == 2


def test_limit_restricts_the_deliveries_shown_first(site: Site) -> None:
    for number in range(3):
        site.publish(id=f"build-{number}")
    until(lambda: len(site.cli.json("deliveries", "list", "--hook", str(site.hook))) == 4)
    newest = site.cli.json("deliveries", "list", "--hook", str(site.hook), "--limit", "2")
    with followed(site, "--hook", str(site.hook), "--limit", "2", "--json") as command:
        assert [each["id"] for each in command.rows(2)] == [each["id"] for each in reversed(newest)]
        site.publish()
        assert command.rows(3)[2]["id"] > newest[0]["id"]


def test_following_ends_when_its_reader_exits(site: Site) -> None:
    """With `| head -1`, the command ends silently at the next line."""
    words = [sys.executable, "-m", "workhook", "deliveries", "list", "--follow", "--hook", str(site.hook)]
    process = subprocess.Popen(words, env=site.cli.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    with process, process.stdout, process.stderr:
        process.stdout.readline()
        process.stdout.close()
        site.publish()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_a_delivery_committed_out_of_order_is_not_missed(site: Site) -> None:
    """Another process takes the lower number first and commits last."""
    with followed(site, "--hook", str(site.hook), "--json") as command, asyncio.Runner() as runner:
        [ping] = command.rows(1)
        other = runner.run(asyncpg.connect(site.cli.environment["WORKHOOK_DATABASE_URL"]))
        columns = runner.run(
            other.fetchval(
                "SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute"
                " WHERE attrelid = 'deliveries'::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'id'"
            )
        )
        runner.run(other.execute("BEGIN"))
        late = runner.run(
            other.fetchval(
                f"INSERT INTO deliveries ({columns}) SELECT {columns} FROM deliveries WHERE id = $1 RETURNING id",
                ping["id"],
            )
        )
        site.publish()
        assert command.rows(2)[1]["id"] > late
        runner.run(other.execute("COMMIT"))
        assert command.rows(3)[2]["id"] == late
        runner.run(other.close())


def test_follow_cannot_be_combined_with_an_end(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "data", {})
    said = cli.refused("deliveries", "list", "--follow", "--hook", "1", "--until", "2026-11-20T09:00:00Z", status=2)
    assert "--follow and --until cannot be combined" in said
