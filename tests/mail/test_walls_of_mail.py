"""Nobody gets mail about what they may not see, and mail about one organization contains nothing of another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.harness.server import Server
from tests.harness.waiting import until
from tests.mail.server import MailServer
from tests.work.studio import Caller, Studio
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.tables import mail_messages
from workhook.storage.metadata import bigint_param

_c = mail_messages.c
_of_person = sa.select(_c.failure, _c.next_attempt_at).where(_c.recipient == sa.bindparam("recipient"))
_make_due = sa.update(mail_messages).where(_c.next_attempt_at.is_not(None)).values(next_attempt_at=bigint_param("at"))


class Held:
    """Delays the mail to one person until it is released."""

    def __init__(self, server: Server, mail: MailServer) -> None:
        self._server, self._mail = server, mail

    def hold(self, person: Caller) -> None:
        address = person.me["email"]
        self._mail.rcpt = lambda asked, _: "451 later" if asked == address else "250 OK"

    def wait_for(self, person: Caller, number: int) -> None:
        """Wait until `number` messages to the person have been tried and are waiting."""

        async def read(services: Services) -> bool:
            recipient = f"u{await self._id_of(services, person)}"
            rows = await services.database.fetch_all(_of_person, {"recipient": recipient})
            return len([row for row in rows if row["failure"]]) == number

        until(lambda: self._server.run(read))

    def let_go(self) -> None:
        self._mail.rcpt = lambda asked, _: "250 OK"

        async def write(services: Services) -> None:
            await services.database.in_transaction(lambda tx: tx.execute(_make_due, {"at": 0}))

        self._server.run(write)

    def nothing_waits(self, person: Caller) -> bool:
        async def read(services: Services) -> bool:
            recipient = f"u{await self._id_of(services, person)}"
            rows = await services.database.fetch_all(_of_person, {"recipient": recipient})
            return all(row["next_attempt_at"] is None for row in rows)

        return bool(self._server.run(read))

    @staticmethod
    async def _id_of(services: Services, person: Caller) -> int:
        account = await queries.find_account(services.database, person.login)
        assert account is not None
        return account.id


@pytest.fixture
def held(server: Server, mail: MailServer) -> Iterator[Held]:
    yield Held(server, mail)
    mail.rcpt = lambda asked, _: "250 OK"


@pytest.fixture
def other(server: Server) -> Iterator[Studio]:
    other = Studio(server, server.world())
    yield other
    other.close()


def add_member(studio: Studio, person: Caller) -> None:
    async def put(services: Services) -> None:
        async with services.database.transaction() as tx:
            place = await queries.find_account(tx, studio.world.organization)
            account = await queries.find_account(tx, person.login)
            assert place is not None
            assert account is not None
            await actions.set_member(tx, place, account, "member")

    studio.server.run(put)


def assign(studio: Studio, person: Caller, title: str) -> str:
    return studio.task(title=title, assignees=[person.login])


def test_a_person_who_left_an_organization_gets_mail_only_about_the_other(
    studio: Studio, other: Studio, held: Held, mail: MailServer
) -> None:
    person = studio.member
    add_member(other, person)
    held.hold(person)
    assign(studio, person, "Of the first")
    assign(other, person, "Of the second")
    held.wait_for(person, 2)
    removed = studio.owner.http.delete(f"/orgs/{studio.world.organization}/members/{person.login}")
    assert removed.status_code == 204
    studio.owner.patch(studio.project, json={"private": True})
    held.let_go()
    [got] = mail.wait_for(str(person.me["email"]))
    until(lambda: held.nothing_waits(person))
    assert mail.to(str(person.me["email"])) == [got]
    raw = got.message.as_string() + got.text + got.part("html")
    assert "Of the second" in raw
    assert other.world.organization in raw
    for name in (studio.world.organization, studio.project_id, studio.owner.login, "Of the first"):
        assert name not in raw


def test_a_client_gets_no_mail_about_a_comment_hidden_in_the_meantime(
    studio: Studio, held: Held, mail: MailServer
) -> None:
    client = studio.client
    held.hold(client)
    task_id = studio.task(title="Landing page")
    text = {"text": f"@{client.login} the budget is tight"}
    comment = studio.owner.post(f"/tasks/{task_id}/task_comments", json=text)["task_comment"]
    held.wait_for(client, 1)
    studio.owner.patch(f"/task_comments/{comment['id']}", json={"private": True})
    assign(studio, client, "Open")
    held.wait_for(client, 2)
    held.let_go()
    [got] = mail.wait_for(str(client.me["email"]))
    until(lambda: held.nothing_waits(client))
    assert "Open" in got["Subject"]
    assert len(mail.to(str(client.me["email"]))) == 1


def test_no_mail_is_sent_about_a_deleted_task(studio: Studio, held: Held, mail: MailServer) -> None:
    person = studio.member
    held.hold(person)
    task_id = assign(studio, person, "Gone")
    held.wait_for(person, 1)
    studio.owner.delete(f"/tasks/{task_id}")
    held.let_go()
    until(lambda: held.nothing_waits(person))
    assert mail.to(str(person.me["email"])) == []


def test_unsubscribing_applies_to_waiting_messages(studio: Studio, held: Held, mail: MailServer) -> None:
    person = studio.member
    held.hold(person)
    assign(studio, person, "Waits")
    held.wait_for(person, 1)
    person.patch("/me/notification_settings", json={"assignment": {"email": False}})
    held.let_go()
    until(lambda: held.nothing_waits(person))
    assert mail.to(str(person.me["email"])) == []


def test_an_unreachable_recipient_does_not_delay_others(studio: Studio, held: Held, mail: MailServer) -> None:
    second = studio.add(member="member")
    held.hold(studio.member)
    for each in (studio.member, second):
        assign(studio, each, "Both")
    mail.wait_for(str(second.me["email"]))
