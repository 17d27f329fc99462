"""`workhook listen` forwards what a webhook sends, unchanged, to an address unknown to the server."""

from __future__ import annotations

import hmac
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.cli_kit import Cli
from tests.cli.running import Running
from tests.harness.databases import Databases
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until

ACME = "/repos/acme/website"


class Site:
    """A server with a repository. Its deliveries reach no private network except the built-in receiver."""

    def __init__(self, data: Path, settings: dict[str, str]) -> None:
        self.cli = Cli(data, settings)
        token = self.cli.setup("--project", "Website")["token"]
        self.server = Server(data, {**settings, "delivery_allow_networks": ""}).start()
        self.client: httpx.Client = self.server.client(token)

    def hooks(self) -> list[Any]:
        found: list[Any] = self.client.get(f"{ACME}/hooks").raise_for_status().json()
        return found

    def publish(self, event: str, payload: dict[str, Any]) -> None:
        self.client.post(f"{ACME}/events", json={"event": event, "payload": payload}).raise_for_status()

    @contextmanager
    def listening(self, *words: str) -> Iterator[Running]:
        command = Running(self.cli, "listen", "--json", *words)
        try:
            yield command
        finally:
            if command.process.poll() is None:
                command.process.kill()
                command.process.wait(30)


@pytest.fixture
def site(backend: Databases, tmp_path: Path) -> Iterator[Site]:
    settings = backend.new(tmp_path / "data")
    made = Site(tmp_path / "data", settings)
    yield made
    made.client.close()
    made.server.close()
    backend.drop(settings)


def is_signed(request: Received, secret: str) -> bool:
    expected = hmac.new(secret.encode(), request.body, "sha256").hexdigest()
    return request.headers["x-hub-signature-256"] == f"sha256={expected}"


PAYLOAD = {"ref": "refs/heads/Größe", "numbers": [1, 1.5, 1e300, -0.0], "text": 'a\u2028b </script> \\ " 👩‍🎨'}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_listen_creates_a_webhook_and_deletes_it_at_the_end(
    site: Site, receiver: Receiver, number: signal.Signals
) -> None:
    with site.listening(
        "--repository", "acme/website", "--forward", f"{receiver.url}/./w%2Fh?a=%3A&b=", "--events", "push, task"
    ) as command:
        [begun] = command.rows(1)
        [hook] = site.hooks()
        assert hook["id"] == begun["listening"]["hook_id"]
        assert hook["events"] == ["push", "task"]
        site.publish("issues", {})  # not subscribed
        site.publish("push", PAYLOAD)
        ping, push = receiver.wait_for(2)
        assert (ping.event, push.event, push.path) == ("ping", "push", "/hook/./w%2Fh?a=%3A&b=")
        assert push.payload()["numbers"] == PAYLOAD["numbers"]
        assert push.payload()["text"] == PAYLOAD["text"]
        assert all(is_signed(each, begun["listening"]["secret"]) for each in (ping, push))
        _, first, second = command.rows(3)
        assert (first["delivery"]["event"], first["forwarded"]["status_code"]) == ("ping", 200)
        assert second["delivery"]["guid"] == push.guid
        assert second["delivery"]["status_code"] < 300, "the receiver inside the server took it"
        assert command.end(number) == 0
    assert site.hooks() == []


def test_deliveries_of_an_existing_webhook_are_forwarded(site: Site, receiver: Receiver) -> None:
    """They are forwarded even though the webhook's own receiver is unreachable."""
    config = {"url": "https://unreachable.invalid/", "content_type": "form", "secret": "of the hook", "retries": "0"}
    made = site.client.post(f"{ACME}/hooks", json={"config": config, "events": ["*"]}).raise_for_status().json()
    deliveries = f"{ACME}/hooks/{made['id']}/deliveries"
    until(lambda: site.client.get(deliveries).json())
    with site.listening("--hook", str(made["id"]), "--forward", receiver.url, "--events", "push") as command:
        assert command.rows(1) == [{"listening": {"hook_id": made["id"]}}]
        site.publish("issues", {})
        site.publish("push", PAYLOAD)
        [push] = receiver.wait_for(1)
        assert push.headers["content-type"] == "application/x-www-form-urlencoded"
        assert push.payload()["text"] == PAYLOAD["text"]
        assert is_signed(push, "of the hook")
        assert command.rows(2)[1]["delivery"]["status_code"] >= 500
        assert command.end() == 0
    assert len(receiver.requests) == 1
    assert [each["id"] for each in site.hooks()] == [made["id"]]


def test_an_unreachable_target_is_reported_and_listening_continues(
    site: Site, receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("my own\n")
    answers = iter([Reply(500), Reply(202)])
    receiver.reply = lambda _: next(answers)
    words = ("--repository", "acme/website", "--secret-file", str(tmp_path / "secret"))
    with site.listening(*words, "--forward", receiver.url) as command:
        assert command.rows(1)[0]["listening"]["secret"] == "my own"
        assert command.rows(2)[1]["forwarded"]["status_code"] == 500
        site.publish("push", {})
        assert command.rows(3)[2]["forwarded"]["status_code"] == 202
        assert is_signed(receiver.requests[0], "my own")
        assert command.end() == 0
    with site.listening(*words, "--forward", "http://127.0.0.1:1/") as command:
        [_, ping] = command.rows(2)
        assert ping["forwarded"]["status_code"] is None
        assert "127.0.0.1:1" in ping["forwarded"]["error"]
        assert command.end() == 0


def test_invalid_options_are_refused(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "data", {})
    cli.setup("--project", "Website")
    to = ("--forward", "http://localhost:3000/")
    for wrong in ("localhost:3000", "http://localhost:3000/a b", "http://a..b/", "http://u:p@localhost/"):
        assert "--forward is not a valid URL" in cli.refused("listen", "--forward", wrong, "--hook", "1", status=2)
    assert "Use exactly one of --repository and --hook" in cli.refused("listen", *to, status=2)
    assert "webhook 4711 does not exist" in cli.refused("listen", *to, "--hook", "4711")
    assert "repository acme/none does not exist" in cli.refused("listen", *to, "--repository", "acme/none")
    wanted = ("--repository", "acme/website", "--events", "push,pusch")
    assert 'Unknown event "pusch".' in cli.refused("listen", *to, *wanted)
    said = cli.refused("listen", *to, "--repository", "acme/website", "--secret-file", str(tmp_path / "none"))
    assert "cannot be read" in said
