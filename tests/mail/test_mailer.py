"""The outcome of queued messages: sent, retried, given up or held back. The mail server is a real one."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness import forge
from tests.harness.databases import SqliteDatabases
from tests.mail.post import BASE, FROM, Post, all_were_tried, nothing_waits
from tests.mail.server import MailServer
from workhook.core.clock import DAY_MS, HOUR_MS, MINUTE_MS, now_ms
from workhook.delivery.mail import queue
from workhook.http.calls import Services
from workhook.identity import actions
from workhook.identity.mail.recipients import find_recipient, forget_bounce, record_language
from workhook.identity.schemas import Account
from workhook.identity.tables import ATTEMPTS_MAX
from workhook.storage import Row
from workhook.storage.metadata import bigint_param


@pytest.fixture
def mail() -> Iterator[MailServer]:
    mail = MailServer()
    yield mail
    mail.close()


@pytest.fixture
def person(post: Post) -> Account:
    return post.person()


def address(person: Account) -> str:
    assert person.email is not None
    return person.email


def test_a_message_is_sent_once_and_its_link_is_deleted(post: Post, mail: MailServer, person: Account) -> None:
    post.queue(person)
    [before] = post.rows()
    assert b"/login/link/" not in bytes(before["sealed"])
    [row] = post.deliver(nothing_waits)
    assert row["sent_at"] is not None
    assert row["sealed"] is None
    assert row["attempts"] == 1
    [got] = mail.to(address(person))
    assert f"{BASE}/login/link/" in got.text
    assert got["Message-ID"].startswith(f"<workhook.{row['id']}.")
    assert "List-Unsubscribe" not in got.message


def test_a_temporary_failure_is_retried(post: Post, mail: MailServer, person: Account) -> None:
    mail.rcpt = lambda _, times: "451 4.3.0 try later" if times == 1 else "250 OK"
    mail.data = lambda _, times: "452 4.3.1 disk full" if times == 1 else "250 OK"
    post.queue(person)
    [row] = post.deliver(all_were_tried)
    assert row["failure"] == "451 4.3.0 try later"
    assert 0 < row["next_attempt_at"] - now_ms() <= queue.FIRST_PAUSE_MS
    post.make_due()
    [row] = post.deliver(lambda rows: rows[0]["failure"].startswith("452"))
    assert queue.FIRST_PAUSE_MS < row["next_attempt_at"] - now_ms() <= 2 * queue.FIRST_PAUSE_MS
    post.make_due()
    [row] = post.deliver(nothing_waits)
    assert row["sent_at"] is not None
    assert row["failure"] is None
    assert row["attempts"] == 3


def test_pauses_between_attempts_grow_until_the_last() -> None:
    pauses = [queue.pause_after(each) for each in range(1, ATTEMPTS_MAX + 1)]
    assert pauses[:4] == [MINUTE_MS, 2 * MINUTE_MS, 4 * MINUTE_MS, 8 * MINUTE_MS]
    assert pauses[-1] is None
    known = [each for each in pauses if each is not None]
    assert known == sorted(known)
    assert 1.8 * DAY_MS < sum(known) < 2.2 * DAY_MS


def test_a_message_is_given_up_after_the_last_attempt(post: Post, mail: MailServer, person: Account) -> None:
    mail.rcpt = lambda _, times: "450 4.2.0 greylisted"
    post.queue(person)
    post.set_attempts(ATTEMPTS_MAX - 1)
    [row] = post.deliver(nothing_waits)
    assert row["failed_at"] is not None
    assert row["failure"] == "450 4.2.0 greylisted"
    assert row["sealed"] is None


@pytest.mark.parametrize("said", ["550 5.1.1 no such user", "550 no such user", "552 5.2.2 mailbox full"])
def test_a_rejected_address_gets_no_more_mail(post: Post, mail: MailServer, person: Account, said: str) -> None:
    mail.rcpt = lambda _, times: said
    post.queue(person)
    [row] = post.deliver(nothing_waits)
    assert (row["failed_at"] is not None, row["failure"]) == (True, said)
    found = post.run(lambda services: find_recipient(services.database, person.id))
    assert found.bounce == said
    assert not found.can_be_mailed

    mail.rcpt = lambda _, times: "250 OK"
    post.queue(person)
    assert len(post.deliver(nothing_waits)) == 1  # the second message was deleted
    assert mail.to(address(person)) == []

    async def trust(services: Services) -> None:
        await services.database.in_transaction(partial(forget_bounce, user_id=person.id))

    post.run(trust)
    post.queue(person)
    post.deliver(nothing_waits)
    assert len(mail.to(address(person))) == 1


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (b"550 5.1.1 Empf\xe4nger unbekannt", "550 5.1.1 Empf?nger unbekannt"),
        (b"550 5.1.1 no\0such\x1b[31m user\x07", "550 5.1.1 no such [31m user"),
        (b"552 5.2.2 \xed\xa0\x80" + b"x" * 1000, "552 5.2.2 ???" + "x" * 487),
    ],
)
def test_a_reply_of_arbitrary_bytes_is_recorded(
    post: Post, mail: MailServer, person: Account, said: bytes, kept: str
) -> None:
    """No database stores every byte sequence.

    An unstorable reply must not cause the message to be sent again and again.
    """
    mail.rcpt = lambda _, times: said
    post.queue(person)
    [row] = post.deliver(nothing_waits)
    assert (row["failed_at"] is not None, row["failure"]) == (True, kept)


def test_a_new_address_gets_mail_after_a_rejection(post: Post, mail: MailServer, person: Account) -> None:
    mail.rcpt = lambda asked, _: "550 5.1.1 no such user" if asked == person.email else "250 OK"
    post.queue(person)
    post.deliver(nothing_waits)

    async def move(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(
                sa.text("UPDATE accounts SET email = 'new@example.com' WHERE id = :id").bindparams(bigint_param("id")),
                {"id": person.id},
            )

    post.run(move)
    post.queue(person)
    post.deliver(nothing_waits)
    assert len(mail.to("new@example.com")) == 1


@pytest.mark.parametrize("step", ["rcpt", "data"])
def test_a_rejected_message_does_not_mark_the_address(post: Post, mail: MailServer, person: Account, step: str) -> None:
    setattr(mail, step, lambda _, times: "554 5.7.1 looks like spam" if times == 1 else "250 OK")
    post.queue(person)
    [row] = post.deliver(nothing_waits)
    assert row["failure"] == "554 5.7.1 looks like spam"
    assert row["failed_at"] is not None
    post.queue(person)
    post.deliver(nothing_waits)
    assert len(mail.to(address(person))) == 1


def test_no_message_is_lost_while_the_mail_server_is_down(post: Post, mail: MailServer, person: Account) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    good, post.url = post.url, f"smtp://localhost:{port}"
    post.queue(person, 3)
    rows = post.deliver(lambda rows: any(row["failure"] for row in rows))
    assert any("cannot be reached" in (row["failure"] or "") for row in rows)
    post.url = good
    post.make_due()
    assert all(row["sent_at"] for row in post.deliver(nothing_waits))
    assert len(mail.to(address(person))) == 3


def test_a_hanging_mail_server_times_out(post: Post, mail: MailServer, person: Account) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts connections but sends nothing
        good, post.url = post.url, f"smtp://localhost:{silent.getsockname()[1]}"
        post.queue(person)
        [row] = post.deliver(all_were_tried, timeout_s=0.2)
    assert "did not answer in time" in row["failure"]
    post.url = good
    post.make_due()
    [row] = post.deliver(nothing_waits)
    assert row["sent_at"] is not None


def _is_held_back(row: Row) -> bool:
    return bool(row["attempts"] == 0 and 0 < row["next_attempt_at"] - now_ms() <= HOUR_MS)


def test_notifications_per_hour_are_limited_except_requested_links(
    post: Post, mail: MailServer, person: Account
) -> None:
    post.mention(person, queue.PER_HOUR, is_sent=True)
    post.mention(person, 1)
    post.queue(person)
    rows = post.deliver(lambda rows: bool(rows[-1]["sent_at"]) and _is_held_back(rows[-2]))
    assert _is_held_back(rows[-2])
    assert len(mail.to(address(person))) == 1


def test_one_actor_can_cause_only_a_part_of_the_hourly_limit(post: Post, person: Account) -> None:
    loud, quiet = post.person(), post.person()
    post.mention(person, queue.PER_HOUR_FROM_ONE, actor=loud, is_sent=True)
    post.mention(person, 1, actor=loud)
    post.mention(person, 1, actor=quiet)

    async def waits(services: Services) -> list[int]:
        return [
            await queue.hold_back_ms(services.database, each) for each in await queue.lease_due(services.database, 2)
        ]

    from_loud, from_quiet = post.run(waits)
    assert 0 < from_loud <= HOUR_MS
    assert from_quiet == 0


def test_requested_links_are_sent_before_other_messages(post: Post, person: Account) -> None:
    post.mention(person, 30)
    post.queue(person, 2)

    async def take(services: Services) -> list[str]:
        return [each.kind for number in (1, 3) for each in await queue.lease_due(services.database, number)]

    assert post.run(take) == ["sign_in_link", "sign_in_link", "mention", "mention"]


def test_a_disabled_user_gets_no_mail(post: Post, mail: MailServer, person: Account) -> None:
    post.queue(person)

    async def disable(services: Services) -> None:
        async with services.database.transaction() as tx:
            await actions.disable(tx, person, base=BASE)

    post.run(disable)
    assert post.deliver(nothing_waits) == []
    assert mail.received == []


def test_a_message_is_in_the_recipients_language(post: Post, mail: MailServer, person: Account) -> None:
    async def choose(services: Services) -> None:
        async with services.database.transaction() as tx:
            record_language(tx, person.id, "de")

    post.run(choose)
    post.queue(person)
    post.deliver(nothing_waits)
    [got] = mail.to(address(person))
    assert 'lang="de"' in got.part("html")


def test_sent_messages_are_deleted_after_some_days(post: Post, person: Account) -> None:
    post.queue(person)
    post.deliver(nothing_waits)
    assert post.run(lambda services: queue.delete_old(services, now_ms() + queue.SENT_KEPT_MS - MINUTE_MS)) == 0
    assert post.run(lambda services: queue.delete_old(services, now_ms() + queue.SENT_KEPT_MS + MINUTE_MS)) == 1
    assert post.rows() == []


def test_the_outcome_of_an_expired_lease_is_ignored(post: Post, person: Account) -> None:
    post.queue(person)
    [first] = post.run(lambda services: queue.lease_due(services.database, 5))
    assert post.run(lambda services: queue.lease_due(services.database, 5)) == []  # it is leased
    post.make_due()  # its lease has ended
    [second] = post.run(lambda services: queue.lease_due(services.database, 5))

    async def record(services: Services) -> None:
        await queue.record(services.database, first, "failed", failure="late")

    post.run(record)
    [row] = post.rows()
    assert row["failed_at"] is None
    assert (first.attempts, second.attempts) == (1, 2)


def test_the_backlog_is_counted(post: Post, person: Account) -> None:
    post.queue(person, 2)
    waiting, _ = post.run(lambda services: queue.find_backlog(services.database))
    assert waiting == 2
    post.deliver(nothing_waits)
    assert post.run(lambda services: queue.find_backlog(services.database)) == (0, 0)


# --- Commands --------------------------------------------------------------------------------------------------------
# `workhook mail test`, links by e-mail, and the mail check of `workhook doctor`.


@pytest.fixture
def data(tmp_path: Path) -> Path:
    SqliteDatabases(tmp_path).new(tmp_path / "data")
    return tmp_path / "data"


def run(data: Path, *words: str, **settings: str) -> Any:
    given = {"data": str(data), "base_url": BASE, **settings}
    plain = {name: value for name, value in os.environ.items() if not name.startswith("WORKHOOK_")}
    return forge.run(words, {**plain, **{f"WORKHOOK_{name.upper()}": value for name, value in given.items()}})


def test_a_test_message_is_sent(data: Path, mail: MailServer) -> None:
    done = run(data, "mail", "test", "ada@example.com", "--json", smtp_url=mail.url(), mail_from=FROM)
    assert json.loads(done.stdout) == {"address": "ada@example.com", "sent": True}
    [got] = mail.to("ada@example.com")
    assert got["Subject"] == "Test e-mail"
    assert BASE in got.text


def test_failures_of_the_test_message_are_explained(data: Path, mail: MailServer) -> None:
    mail.rcpt = lambda address, _: "550 5.1.1 no such user"
    refused = run(data, "mail", "test", "ada@example.com", smtp_url=mail.url(), mail_from=FROM)
    assert refused.returncode == 1
    assert "does not accept mail for this address. 550 5.1.1 no such user" in refused.stderr
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    away = run(data, "mail", "test", "ada@example.com", smtp_url=f"smtp://u:s3cret@localhost:{port}", mail_from=FROM)
    assert away.returncode == 1
    assert f"localhost:{port} cannot be reached" in away.stderr
    assert "s3cret" not in away.stderr + away.stdout
    unset = run(data, "mail", "test", "ada@example.com")
    assert "no mail server is configured" in unset.stderr
    nobody = run(data, "mail", "test", "ada", smtp_url=mail.url(), mail_from=FROM)
    assert "is not an e-mail address" in nobody.stderr


def test_incomplete_mail_settings_are_refused(data: Path, mail: MailServer) -> None:
    for settings, said in (
        ({"smtp_url": mail.url()}, "smtp_url: requires mail_from"),
        ({"mail_from": FROM}, "mail_from: requires smtp_url"),
        (
            {"smtp_url": "smtp://u:s3cret@/", "mail_from": FROM},
            "WORKHOOK_SMTP_URL: the value is invalid; expected smtp",
        ),
    ):
        done = run(data, "user", "list", **settings)
        assert done.returncode != 0
        assert said in done.stderr
        assert "s3cret" not in done.stderr


def test_a_link_is_sent_to_the_users_address(data: Path, mail: MailServer) -> None:
    settings = {"smtp_url": mail.url(), "mail_from": FROM}
    run(data, "user", "add", "--login", "ada", "--email", "ada@example.com")
    done = run(data, "user", "password-link", "--login", "ada", "--mail", "--json", **settings)
    made = json.loads(done.stdout)
    assert made["mailed_to"] == "ada@example.com"
    post = Post({"data": str(data)}, mail.url())
    try:
        post.deliver(nothing_waits)
    finally:
        post.close()
    [got] = mail.to("ada@example.com")
    assert made["url"] in got.text
    plain = json.loads(run(data, "user", "sign-in-link", "--login", "ada", "--json", **settings).stdout)
    assert plain["mailed_to"] is None
    unset = run(data, "user", "sign-in-link", "--login", "ada", "--mail")
    assert "no mail server is configured" in unset.stderr


def test_the_doctor_checks_the_mail_server(data: Path, mail: MailServer) -> None:
    run(data, "user", "add", "--login", "ada", "--email", "ada@example.com")
    good = json.loads(run(data, "doctor", "--json", smtp_url=mail.url(), mail_from=FROM).stdout)
    [check] = [each for each in good["checks"] if each["name"] == "mail"]
    assert check["ok"]
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    bad = json.loads(run(data, "doctor", "--json", smtp_url=f"smtp://localhost:{port}", mail_from=FROM).stdout)
    [check] = [each for each in bad["checks"] if each["name"] == "mail"]
    assert not check["ok"]
    assert "cannot be reached" in check["detail"]
    assert all(each["name"] != "mail" for each in json.loads(run(data, "doctor", "--json").stdout)["checks"])
