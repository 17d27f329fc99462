"""The page of an issued invoice shows who got it by e-mail, and an invited address must be confirmed."""

from __future__ import annotations

import re
import uuid
from contextlib import ExitStack

import pytest
import sqlalchemy as sa

from tests.harness.server import Server
from tests.harness.waiting import until
from tests.mail.server import MailServer
from tests.mail.test_invitations_by_mail import link_in, new_address
from tests.mail.test_invoices_by_mail import send_invoice
from tests.web.browser import PASSWORD, Browser
from tests.web.studio import text_of
from tests.work.studio import Studio
from workhook.core.clock import DAY_MS
from workhook.http.calls import Services
from workhook.identity.tables import ATTEMPTS_MAX, mail_messages
from workhook.storage.metadata import bigint_param
from workhook.work.money.invoices.schemas import invoices

_age = (
    sa.update(invoices)
    .where(invoices.c.id == sa.bindparam("invoice_id"))
    .values(issued=invoices.c.issued - bigint_param("by"))
)
_last_attempt = (
    sa.update(mail_messages)
    .where(mail_messages.c.invoice_id == sa.bindparam("of_invoice"))
    .values(attempts=ATTEMPTS_MAX - 1, next_attempt_at=0)
)
NOBODY = "Not e-mailed. Download the PDF to send it yourself."


def page_of_invoice(studio: Studio, browser: Browser, invoice_id: str) -> str:
    answer = browser.get(f"/{studio.world.full_name}/billing/{invoice_id}")
    assert answer.status_code == 200, answer.text
    return text_of(answer.text)


def page_with(words: str, studio: Studio, browser: Browser, invoice_id: str) -> str | None:
    text = page_of_invoice(studio, browser, invoice_id)
    return text if words in text else None


def test_the_page_shows_to_whom_an_invoice_was_mailed(
    studio: Studio, mail: MailServer, owner: Browser, browsers: ExitStack
) -> None:
    address = str(studio.client.me["email"])
    invoice_id = send_invoice(studio)
    mail.wait_for(address)
    text = until(lambda: page_with("E-mailed to", studio, owner, invoice_id))
    assert text is not None
    assert re.search(rf"E-mailed to {re.escape(address)} on 20\d\d", text)
    assert NOBODY not in text
    member = browsers.enter_context(Browser.of(studio.server, str(studio.member.me["login"])))
    assert f"E-mailed to {address}" in page_of_invoice(studio, member, invoice_id)
    client = browsers.enter_context(Browser.of(studio.server, str(studio.client.me["login"])))
    shown = page_of_invoice(studio, client, invoice_id)
    assert "E-mailed to" not in shown
    assert NOBODY not in shown


def test_the_page_omits_the_mail_status_of_an_old_invoice(studio: Studio, owner: Browser) -> None:
    invoice_id = send_invoice(studio)

    async def age(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(_age, {"invoice_id": invoice_id, "by": 8 * DAY_MS})

    section = re.compile("E-mail (E-mailed|Sending|Not e-mailed|The e-mail)")
    assert section.search(page_of_invoice(studio, owner, invoice_id))
    studio.server.run(age)
    assert not section.search(page_of_invoice(studio, owner, invoice_id))


def test_the_page_explains_that_a_project_has_no_clients(studio: Studio, owner: Browser) -> None:
    text = page_of_invoice(studio, owner, send_invoice(studio))
    assert f"{NOBODY} The project has no clients. Invite a client" in text


def test_the_invited_address_is_prefilled_and_must_be_confirmed(
    studio: Studio, mail: MailServer, owner: Browser, browsers: ExitStack
) -> None:
    address = new_address()
    settings = f"/{studio.world.full_name}/settings"
    owner.fill_csrf(f"{settings}/clients/invite", email=address, link="1")
    [invited] = mail.wait_for(address)
    path = link_in(invited, studio.server)
    guest = browsers.enter_context(Browser(studio.server))
    form = guest.form(path)
    assert form.fields["email"] == address
    given = {"login": f"guest-{uuid.uuid4().hex[:8]}", "name": "Mia Client", "password": PASSWORD, "again": PASSWORD}
    answer = guest.post(form.action, {**form.fields, **given})
    assert answer.status_code == 303, answer.text
    landed = guest.get(answer.headers["location"])
    assert f"We’ve sent a link to {address}. Open it to receive e-mail" in landed.text

    unconfirmed = page_of_invoice(studio, owner, send_invoice(studio))
    assert f"{NOBODY} None of the clients has a confirmed e-mail address." in unconfirmed
    _, asked = mail.wait_for(address, 2)
    confirmation = path_in(asked.text, studio.server)
    assert guest.fill(confirmation).status_code == 303
    assert page_of_invoice(studio, owner, second := send_invoice(studio))
    mail.wait_for(address, 3)
    assert until(lambda: f"E-mailed to {address}" in page_of_invoice(studio, owner, second))


def path_in(text: str, server: Server) -> str:
    found = re.search(re.escape(server.url) + r"(/settings/notifications/confirm/\S+)", text)
    assert found is not None, text
    return found[1]


def join_with_own_address(studio: Studio, mail: MailServer, owner: Browser, browsers: ExitStack) -> str:
    """Invite Mia Client, who confirms another address than the invited one. Return that address."""
    address, own = new_address(), new_address()
    settings = f"/{studio.world.full_name}/settings"
    owner.fill_csrf(f"{settings}/clients/invite", email=address, link="1")
    path = link_in(mail.wait_for(address)[0], studio.server)
    guest = browsers.enter_context(Browser(studio.server))
    given = {"login": f"guest-{uuid.uuid4().hex[:8]}", "name": "Mia Client", "password": PASSWORD, "again": PASSWORD}
    assert guest.fill(path, email=own, **given).status_code == 303
    assert guest.fill(path_in(mail.wait_for(own)[0].text, studio.server)).status_code == 303
    return own


def test_the_studio_does_not_see_another_address_of_a_client(
    studio: Studio, mail: MailServer, owner: Browser, browsers: ExitStack
) -> None:
    """The studio sees the client's name and the invited address, but not the address at which the client gets mail."""
    own = join_with_own_address(studio, mail, owner, browsers)
    invoice_id = send_invoice(studio)
    mail.wait_for(own, 2)
    text = until(lambda: page_with("E-mailed to Mia Client", studio, owner, invoice_id))
    assert text is not None
    assert own not in text


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "550 5.1.1 <{}>: unknown user at mx.inside.example",
            "Download the PDF to send it yourself. The address doesn’t exist.",
        ),
        (
            "451 4.3.0 <{}>: mx.inside.example is busy",
            "The e-mail to Mia Client couldn’t be delivered yet. Workhook will try again soon.",
        ),
    ],
    ids=["refused", "put-off"],
)
def test_the_studio_does_not_see_the_mail_servers_reply(
    studio: Studio,
    mail: MailServer,
    owner: Browser,
    browsers: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    shown: str,
) -> None:
    """The reply contains the client's own address and the names of the operator's servers."""
    own = join_with_own_address(studio, mail, owner, browsers)
    monkeypatch.setattr(mail, "rcpt", lambda address, _: said.format(address) if address == own else "250 OK")
    invoice_id = send_invoice(studio)
    assert until(lambda: page_with(shown, studio, owner, invoice_id))
    page = owner.get(f"/{studio.world.full_name}/billing/{invoice_id}").text
    for each in (own, "mx.inside.example", f"localhost:{mail.port}", said[:9]):
        assert each not in page, each


def test_a_message_given_up_after_retries_is_not_shown_as_rejected(
    studio: Studio, mail: MailServer, owner: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(studio.client.me["email"])
    monkeypatch.setattr(mail, "rcpt", lambda *_: "451 4.3.0 busy")
    invoice_id = send_invoice(studio)
    assert until(lambda: page_with("Workhook will try again soon", studio, owner, invoice_id))

    async def hurry(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(_last_attempt, {"of_invoice": invoice_id})

    studio.server.run(hurry)
    text = until(lambda: page_with("Download the PDF to send it yourself.", studio, owner, invoice_id))
    assert text is not None
    assert f"The e-mail to {address}" in text
    assert "Delivery was attempted for two days without success." in text
