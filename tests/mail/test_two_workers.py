"""Several processes that send mail: nothing is sent twice, except after a crash between the reply and the commit."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.databases import Databases
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.mail.post import BASE, FROM, Post, nothing_waits
from tests.mail.server import MailServer


@pytest.fixture
def mail() -> Iterator[MailServer]:
    mail = MailServer()
    yield mail
    mail.close()


@pytest.fixture
def settings(backend: Databases, tmp_path: Path) -> dict[str, Any]:
    folder = tmp_path / "data"
    return {"data": str(folder), **backend.new(folder)}


@pytest.fixture
def post(settings: dict[str, Any], mail: MailServer) -> Iterator[Post]:
    post = Post(settings, mail.url())
    yield post
    post.close()


@pytest.fixture
def new_worker(settings: dict[str, Any], mail: MailServer) -> Iterator[Callable[[], Server]]:
    made: list[Server] = []

    def start() -> Server:
        more = {"smtp_url": mail.url(), "mail_from": FROM, "base_url": BASE}
        made.append(Server(Path(settings["data"]), {**settings, **more}, command=("worker",)).start())
        return made[-1]

    yield start
    for each in made:
        each.close()


def test_two_processes_send_nothing_twice(post: Post, mail: MailServer, new_worker: Callable[[], Server]) -> None:
    people = [post.person() for _ in range(10)]
    for each in people:
        post.queue(each, 6)
    workers = [new_worker() for _ in range(2)]
    until(lambda: nothing_waits(post.rows()))
    assert Counter(each.address for each in mail.received) == dict.fromkeys([each.email for each in people], 6)
    assert len({each["Message-ID"] for each in mail.received}) == 60
    assert [each.stop() for each in workers] == [0, 0]
    logs = "".join(each.log() for each in workers)
    assert logs.count("mail_sent") == 60
    assert "@example.com" not in logs
    assert "/login/link/" not in logs


def test_a_crash_before_the_commit_repeats_the_same_message(
    post: Post, mail: MailServer, new_worker: Callable[[], Server]
) -> None:
    person = post.person()
    post.queue(person)
    victims: list[Server] = []
    ready = threading.Event()

    def kill_first(_: str, times: int) -> str:
        if times == 1:
            ready.wait(30)
            victims[0].kill()  # the server has the message, but its reply does not arrive
        return "250 OK"

    mail.data = kill_first
    victims.append(new_worker())
    ready.set()
    address = str(person.email)
    mail.wait_for(address)
    [row] = post.rows()
    assert row["sent_at"] is None
    post.make_due()  # its lease has ended
    new_worker()
    first, second = mail.wait_for(address, 2)
    assert first["Message-ID"] == second["Message-ID"]
    assert first["Date"] == second["Date"]
    until(lambda: nothing_waits(post.rows()))
    assert len(mail.to(address)) == 2


def test_a_worker_without_a_base_url_sends_nothing(post: Post, mail: MailServer, settings: dict[str, Any]) -> None:
    post.queue(post.person())
    more = {"smtp_url": mail.url(), "mail_from": FROM}
    worker = Server(Path(settings["data"]), {**settings, **more}, command=("worker",)).start()
    try:
        assert worker.stop() == 0
        assert "WORKHOOK_BASE_URL" in worker.log()
        assert mail.received == []
    finally:
        worker.close()
