"""Links to confirm an e-mail address are limited per person and per address."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import ExitStack

import sqlalchemy as sa

from tests.harness.waiting import until
from tests.mail.post import Post
from tests.mail.server import MailServer
from tests.mail.test_invitations_by_mail import link_in, new_address
from tests.web.browser import PASSWORD, Browser
from tests.work.studio import Studio
from workhook.core.clock import DAY_MS, now_ms
from workhook.http.calls import Services
from workhook.identity.mail.links import ADDRESS_MAX, ASKED_MAX, mailbox_of, queue_confirmation
from workhook.identity.queries import find_account
from workhook.identity.schemas import Account
from workhook.identity.tables import mail_messages, sign_in_failures
from workhook.storage import Row
from workhook.storage.metadata import bigint_param

_c = mail_messages.c
_of = sa.select(mail_messages).where(_c.detail == sa.bindparam("mailbox", type_=sa.Text)).order_by(_c.id)
_age = (
    sa.update(sign_in_failures)
    .where(sign_in_failures.c.key == sa.bindparam("of_key", type_=sa.Text))
    .values(since=sign_in_failures.c.since - bigint_param("by"))
)
_fill = (
    sa.update(sign_in_failures)
    .where(sign_in_failures.c.key == sa.bindparam("of_key", type_=sa.Text))
    .values(failures=sa.bindparam("number", type_=sa.Integer))
)
SETTINGS = "/settings/notifications"


def request_links(post: Post, people: list[Account], address: str) -> None:
    """Request a link for each person concurrently."""

    async def ask(services: Services) -> None:
        async def one(person: Account) -> None:
            await services.database.in_transaction(
                lambda tx: queue_confirmation(tx, person.id, address, language="en", now=now_ms())
            )

        await asyncio.gather(*(one(each) for each in people))

    post.run(ask)


def waiting(post: Post, address: str) -> list[bool]:
    """Return for each message to the address whether it is to be sent."""

    async def read(services: Services) -> list[Row]:
        return list(await services.database.fetch_all(_of, {"mailbox": mailbox_of(address)}))

    return [each["next_attempt_at"] is not None for each in post.run(read)]


def test_the_limit_per_address_applies_across_accounts(post: Post) -> None:
    people = [post.person() for _ in range(ADDRESS_MAX + 4)]
    address = f"victim-{people[0].id}@guests.example"
    request_links(post, people, address)
    asked = waiting(post, address)
    assert len(asked) == len(people), "each request is written"
    assert sum(asked) == ADDRESS_MAX
    request_links(post, [post.person()], f"victim-{people[0].id}+more@GUESTS.example")
    assert sum(waiting(post, address)) == ADDRESS_MAX, "it is the same mailbox"
    request_links(post, [post.person()], f"other-{people[0].id}@guests.example")
    assert waiting(post, f"other-{people[0].id}@guests.example") == [True]


def test_an_address_gets_links_again_a_day_later(post: Post) -> None:
    people = [post.person() for _ in range(ADDRESS_MAX + 1)]
    address = f"victim-{people[0].id}@guests.example"
    request_links(post, people, address)

    async def age(services: Services) -> None:
        params = {"of_key": f"mailed:{mailbox_of(address)}", "by": DAY_MS + 60_000}
        await services.database.in_transaction(lambda tx: tx.execute(_age, params))

    post.run(age)
    request_links(post, [post.person()], address)
    assert sum(waiting(post, address)) == ADDRESS_MAX + 1


def join(studio: Studio, mail: MailServer, browsers: ExitStack) -> tuple[Browser, str, str]:
    """Accept an invitation with another address. Return the browser, the login and that address."""
    invited, own = new_address(), new_address()
    studio.owner.http.post(f"/orgs/{studio.world.organization}/invitations", json={"email": invited})
    path = link_in(mail.wait_for(invited)[0], studio.server)
    guest = browsers.enter_context(Browser(studio.server))
    login = f"guest-{uuid.uuid4().hex[:6]}"
    assert guest.fill(path, path, login=login, email=own, password=PASSWORD, again=PASSWORD).status_code == 303
    mail.wait_for(own)
    return guest, login, own


def test_responses_do_not_reveal_the_limit_of_an_address(studio: Studio, mail: MailServer, browsers: ExitStack) -> None:
    """Callers do not learn that others have requested links."""
    plain, _, address = join(studio, mail, browsers)
    full, _, taken = join(studio, mail, browsers)

    async def fill(services: Services) -> None:
        params = {"of_key": f"mailed:{mailbox_of(taken)}", "number": ADDRESS_MAX}
        await services.database.in_transaction(lambda tx: tx.execute(_fill, params))

    studio.server.run(fill)
    answers = []
    for browser in (plain, full):
        some = [browser.fill_csrf(f"{SETTINGS}/confirm") for _ in range(ASKED_MAX)]
        answers.append([(each.status_code, each.headers.get("location")) for each in some])
        assert "Check your inbox for a confirmation link." in browser.get(SETTINGS).text
    assert answers[0] == answers[1]
    assert [status for status, _ in answers[0]] == [303] * (ASKED_MAX - 1) + [429]
    until(lambda: len(mail.to(address)) == ASKED_MAX)
    assert len(mail.to(taken)) == 1


def test_a_link_is_not_sent_to_a_different_address_than_it_was_counted_for(
    studio: Studio, mail: MailServer, browsers: ExitStack
) -> None:
    """The person may have changed the address since the request."""
    _, login, own = join(studio, mail, browsers)
    before = new_address()

    async def ask(services: Services) -> None:
        async with services.database.transaction() as tx:
            person = await find_account(tx, login)
            assert person is not None
            await queue_confirmation(tx, person.id, before, language="en", now=now_ms())

    async def is_there(services: Services) -> bool:
        return bool(await services.database.fetch_all(_of, {"mailbox": mailbox_of(before)}))

    studio.server.run(ask)
    assert until(lambda: not studio.server.run(is_there))
    assert len(mail.to(own)) == 1
    assert mail.to(before) == []


def test_variants_of_a_mailbox_share_one_limit() -> None:
    assert mailbox_of("a.da@example.com") == mailbox_of(" Ada+1@EXAMPLE.com ")
    for other in (
        '"ada"@example.com',
        '"a\\d\\a"@example.com',
        "ada@example.com.",
        "ada@ex\u00adample.com",
        "ada@\uff45xample.com",
    ):
        assert mailbox_of(other) == mailbox_of("ada@example.com")
    assert mailbox_of("ada@example.com") != mailbox_of("ada@example.org")
    assert mailbox_of("+@example.com") != mailbox_of("..@example.com")
