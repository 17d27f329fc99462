"""Invitations by e-mail: an address gets a link, and a user with an account gets a notification."""

from __future__ import annotations

import re
import uuid
from contextlib import ExitStack

import sqlalchemy as sa

from tests.harness.server import Server
from tests.harness.waiting import until
from tests.mail.server import MailServer, Received
from tests.web.browser import PASSWORD, Browser
from tests.web.places_kit import add_in, signed_in
from tests.web.studio import text_of
from tests.work.studio import Studio
from workhook.http.calls import Services
from workhook.identity.mail.links import PER_MAILBOX, PER_PLACE, mailbox_of
from workhook.identity.tables import sign_in_failures

_counted = sa.select(sign_in_failures.c.failures).where(sign_in_failures.c.key == sa.bindparam("key"))


def new_address() -> str:
    return f"{uuid.uuid4().hex[:10]}@guests.example"


def link_in(got: Received, server: Server) -> str:
    """Return the path of the link in a message."""
    found = re.search(re.escape(server.url) + r"(/invitations/links/\S+)", got.text)
    assert found is not None
    return found[1]


def test_a_person_invited_by_address_joins_with_the_link(studio: Studio, mail: MailServer, browsers: ExitStack) -> None:
    address = new_address()
    invited = studio.owner.http.post(f"/orgs/{studio.world.organization}/invitations", json={"email": address})
    assert invited.status_code == 201
    [got] = mail.wait_for(address)
    assert got["Subject"] == "Octo invited you to Acme"
    assert "List-Unsubscribe" not in got.message
    guest = Browser(studio.server)
    browsers.callback(guest.client.close)
    path = link_in(got, studio.server)
    login = f"guest-{uuid.uuid4().hex[:6]}"
    joined = guest.fill(path, f"{path}", login=login, password=PASSWORD, again=PASSWORD)
    assert joined.status_code == 303, joined.text
    members = studio.owner.http.get(f"/orgs/{studio.world.organization}/members").json()
    assert login in [each["login"] for each in members]


def _invite_again(studio: Studio, address: str) -> int:
    """Revoke the pending invitation, then invite the address again."""
    path = f"/orgs/{studio.world.organization}/invitations"
    for each in studio.owner.http.get(path).json():
        assert studio.owner.http.delete(f"{path}/{each['id']}").status_code == 204
    return studio.owner.http.post(path, json={"email": address}).status_code


def test_repeated_invitations_are_limited(studio: Studio, mail: MailServer) -> None:
    """Spelling variants share a limit, which other organizations do not see, and all organizations share a total."""
    name = uuid.uuid4().hex[:10]
    spellings = [f"{name}@guests.example", f"{name}+{{}}@guests.example", f"{name[:3]}.{name[3:]}@GUESTS.example"]
    answers = [_invite_again(studio, spellings[number % 3].format(number)) for number in range(PER_PLACE + 2)]
    assert answers == [201] * PER_PLACE + [429] * 2
    for _ in range(2):
        other = Studio(studio.server, studio.server.world())
        answers = [_invite_again(other, spellings[0]) for _ in range(PER_PLACE + 1)]
        assert answers == [201] * PER_PLACE + [429]
        client = {"email": spellings[0]}
        assert other.owner.call("POST", f"{other.project}/clients", json=client).status_code == 429
        other.close()

    async def count(services: Services) -> int:
        rows = await services.database.fetch_all(_counted, {"key": f"invited:{mailbox_of(spellings[0])}"})
        return int(rows[0]["failures"])

    assert studio.server.run(count) == PER_MAILBOX
    another = new_address()
    assert _invite_again(studio, another) == 201
    mail.wait_for(another)
    assert sum(len(mail.to(each.format(number))) for each in spellings for number in range(9)) <= 4 * PER_MAILBOX


def test_the_page_shows_that_the_link_was_sent(studio: Studio, mail: MailServer, owner: Browser) -> None:
    address = new_address()
    people = f"/{studio.world.organization}/people"
    assert "People invited by e-mail get a link" in text_of(owner.get(people).text)
    shown = owner.fill_csrf(people, who=address, role="member", link="1")
    assert f"The link is e-mailed to {address}." in text_of(shown.text)
    [got] = mail.wait_for(address)
    path = link_in(got, studio.server)
    assert path in shown.text  # the same link as in the e-mail

    other = new_address()
    done = owner.fill_csrf(people, who=other, role="member")
    assert done.status_code == 303, done.text
    assert f"{other} invited. A link is on its way by e-mail." in owner.get(people).text
    mail.wait_for(other)


def test_a_client_is_invited_in_the_language_of_the_page(studio: Studio, mail: MailServer, owner: Browser) -> None:
    address = new_address()
    owner.client.cookies.set("workhook_language", "de")
    settings = f"/{studio.world.full_name}/settings"
    owner.fill_csrf(f"{settings}/clients/invite", email=address, link="1")
    [got] = mail.wait_for(address)
    assert 'lang="de"' in got.part("html")
    assert link_in(got, studio.server)


def test_a_revoked_invitation_is_not_sent(studio: Studio, mail: MailServer) -> None:
    address, other = new_address(), new_address()
    organization = studio.world.organization
    mail.rcpt = lambda asked, times: "451 later" if asked == address else "250 OK"
    try:
        made = studio.owner.http.post(f"/orgs/{organization}/invitations", json={"email": address}).json()
        assert studio.owner.http.delete(f"/orgs/{organization}/invitations/{made['id']}").status_code == 204
        studio.owner.http.post(f"/orgs/{organization}/invitations", json={"email": other})
        mail.wait_for(other)
    finally:
        mail.rcpt = lambda asked, times: "250 OK"
    assert mail.to(address) == []


def test_owners_see_whose_mail_is_not_delivered(studio: Studio, mail: MailServer, owner: Browser) -> None:
    person, address = add_in(studio.server, studio.world, "member"), new_address()
    mail.rcpt = lambda asked, _: (
        f"550 5.1.1 <{asked}>: nobody here at mx.inside.example" if asked in (person.email, address) else "250 OK"
    )
    people = f"/{studio.world.organization}/people"
    try:
        owner.fill_csrf(people, who=address, role="member")
        studio.task(assignees=[person.login])
        text = until(lambda: text_with(" (550 5.1.1) ", 2, owner, people))
    finally:
        mail.rcpt = lambda asked, times: "250 OK"

    assert text is not None
    assert (
        "E-mail isn’t being delivered. The address doesn’t exist. (550 5.1.1) An administrator can enter "
        "another address." in text
    )
    assert (
        "The e-mail wasn’t delivered. The address doesn’t exist. (550 5.1.1) Revoke the invitation and invite another "
        "address." in text
    )
    for each in ("nobody here", "mx.inside.example", f"localhost:{mail.port}"):
        assert each not in text


def text_with(words: str, number: int, owner: Browser, path: str) -> str | None:
    text = text_of(owner.get(path).text)
    return text if text.count(words) == number else None


def test_admins_see_which_clients_mail_was_not_delivered_and_why(
    studio: Studio, mail: MailServer, owner: Browser
) -> None:
    address = new_address()
    mail.rcpt = lambda asked, _: f"550 5.7.1 <{asked}>: host 10.1.2.3 is blocked" if asked == address else "250 OK"
    settings = f"/{studio.world.full_name}/settings"
    owner.client.headers["Accept-Language"] = "de"
    try:
        owner.fill_csrf(f"{settings}/clients/invite", email=address, link="1")
        text = until(lambda: text_with(" (550 5.7.1) ", 1, owner, settings))
    finally:
        mail.rcpt = lambda asked, times: "250 OK"
    assert text is not None
    assert (
        "Die E-Mail wurde nicht zugestellt. Ein Mailserver hat die E-Mail abgelehnt. (550 5.7.1) "
        "Erstellen Sie einen Link, senden Sie ihn selbst und informieren Sie Ihren Administrator." in text
    )
    assert "10.1.2.3" not in text


def test_an_invited_user_with_an_account_is_notified(studio: Studio, mail: MailServer) -> None:
    stranger = studio.stranger
    studio.owner.http.put(f"/orgs/{studio.world.organization}/memberships/{stranger.login}", json={})
    [got] = mail.wait_for(str(stranger.me["email"]))
    assert got["Subject"] == f"Octo invited you to {studio.world.organization}"
    assert "/invitations/links/" not in got.text
    assert got["List-Unsubscribe"]


def test_the_settings_offer_mail_and_show_a_rejected_address(
    studio: Studio, mail: MailServer, browsers: ExitStack
) -> None:
    person = add_in(studio.server, studio.world, "member")
    browser = signed_in(studio.server, person)
    browsers.callback(browser.client.close)
    page = browser.get("/settings/notifications").text
    assert page.count('name="inbox ') == page.count('name="email ') == 7
    assert person.email in page
    kinds = ("mention", "assignment", "deadline", "invoice", "payment", "invitation", "hook_disabled")
    browser.fill_csrf("/settings/notifications", email="1", **{f"email {kind}": "on" for kind in kinds})
    assert browser.get("/settings/notifications").text.count(" checked") == 7

    mail.rcpt = lambda asked, _: "550 5.1.1 nobody here" if asked == person.email else "250 OK"
    try:
        task_id = studio.task()
        studio.owner.patch(f"/tasks/{task_id}", json={"assignees": [person.login]})

        said = "so Workhook no longer sends e-mail to it. The address doesn’t exist. (550 5.1.1)"
        until(lambda: said in text_of(browser.get("/settings/notifications").text))
        assert "nobody here" not in browser.get("/settings/notifications").text
    finally:
        mail.rcpt = lambda asked, times: "250 OK"
    assert browser.fill_csrf("/settings/notifications/address").status_code == 303
    assert "550 5.1.1" not in browser.get("/settings/notifications").text
    studio.owner.post(f"/tasks/{task_id}/task_comments", json={"text": f"@{person.login}"})
    mail.wait_for(person.email)


def test_a_users_own_address_gets_mail_once_it_is_confirmed(
    studio: Studio, mail: MailServer, browsers: ExitStack
) -> None:
    invited, own = new_address(), new_address()
    studio.owner.http.post(f"/orgs/{studio.world.organization}/invitations", json={"email": invited})
    [got] = mail.wait_for(invited)
    guest = Browser(studio.server)
    browsers.callback(guest.client.close)
    login = f"guest-{uuid.uuid4().hex[:6]}"
    path = link_in(got, studio.server)
    assert guest.fill(path, path, login=login, email=own, password=PASSWORD, again=PASSWORD).status_code == 303

    page = guest.get("/settings/notifications").text
    assert 'name="email ' not in page
    assert own in page
    assert guest.fill_csrf("/settings/notifications/confirm").status_code == 303
    _, asked = mail.wait_for(own, 2)  # the first was sent when the account was created
    link = re.search(re.escape(studio.server.url) + r"(/settings/notifications/confirm/\S+)", asked.text)
    assert link is not None

    other = signed_in(studio.server, add_in(studio.server, studio.world, "member"))
    browsers.callback(other.client.close)
    assert other.get(link[1]).status_code == 404  # the link is for one person only
    assert guest.get(f"{link[1]}x").status_code == 404
    assert own in guest.get(link[1]).text
    assert guest.fill_csrf(link[1]).status_code == 303
    assert guest.get("/settings/notifications").text.count('name="email ') == 7

    task_id = studio.task()
    studio.owner.patch(f"/tasks/{task_id}", json={"assignees": [login]})
    assert len(mail.wait_for(own, 3)) == 3
    assert mail.to(invited) == [got]


def _confirmed(studio: Studio, mail: MailServer, guest: Browser, own: str, number: int = 1) -> str:
    """Create a guest by invitation who confirms the address `own`, and return the login."""
    invited, login = new_address(), f"guest-{uuid.uuid4().hex[:6]}"
    studio.owner.http.post(f"/orgs/{studio.world.organization}/invitations", json={"email": invited})
    path = link_in(mail.wait_for(invited)[0], studio.server)
    assert guest.fill(path, path, login=login, email=own, password=PASSWORD, again=PASSWORD).status_code == 303
    link = re.search(r"(/settings/notifications/confirm/\S+)", mail.wait_for(own, number)[-1].text)
    assert link is not None
    assert guest.fill_csrf(link[1]).status_code == 303
    return login


def test_a_confirmed_address_can_sign_in_and_reset_the_password(
    studio: Studio, mail: MailServer, browsers: ExitStack
) -> None:
    """This also works in a browser that is new to the person. An unconfirmed address does neither."""
    own, waiting = new_address(), new_address()
    login = _confirmed(studio, mail, browsers.enter_context(Browser(studio.server)), own)
    unconfirmed = browsers.enter_context(Browser(studio.server))
    invited = new_address()
    studio.owner.http.post(f"/orgs/{studio.world.organization}/invitations", json={"email": invited})
    path = link_in(mail.wait_for(invited)[0], studio.server)
    other = f"guest-{uuid.uuid4().hex[:6]}"
    unconfirmed.fill(path, path, login=other, email=waiting, password=PASSWORD, again=PASSWORD)

    new = browsers.enter_context(Browser(studio.server))
    assert new.fill("/login", login=waiting, password=PASSWORD).status_code == 422
    assert new.fill("/login", login=f" {own.upper()} ", password="another string").status_code == 422
    assert new.fill("/login", login=f" {own.upper()} ", password=PASSWORD).status_code == 303
    assert login in new.get("/settings").text

    asking = browsers.enter_context(Browser(studio.server))
    said = [text_of(asking.fill("/login/forgotten", login=each).text).replace(each, "") for each in (own, waiting)]
    assert said[0] == said[1]
    link = re.search(r"(/login/link/\S+)", mail.wait_for(own, 2)[-1].text)
    assert link is not None
    changed = "quite another string of words"
    assert asking.fill(link[1], link[1], password=changed, again=changed).status_code == 303
    assert browsers.enter_context(Browser(studio.server)).fill("/login", login=own, password=changed).status_code == 303
    assert len(mail.to(waiting)) == 1, "the link to confirm it"


def test_an_address_confirmed_by_two_people_identifies_neither(
    studio: Studio, mail: MailServer, browsers: ExitStack
) -> None:
    own = new_address()
    for number in (1, 2):
        _confirmed(studio, mail, browsers.enter_context(Browser(studio.server)), own, number)
    new = browsers.enter_context(Browser(studio.server))
    assert new.fill("/login", login=own, password=PASSWORD).status_code == 422


def test_confirmation_links_are_limited(studio: Studio, mail: MailServer, browsers: ExitStack) -> None:
    invited, own = new_address(), new_address()
    studio.owner.http.post(f"/orgs/{studio.world.organization}/invitations", json={"email": invited})
    path = link_in(mail.wait_for(invited)[0], studio.server)
    guest = Browser(studio.server)
    browsers.callback(guest.client.close)
    login = f"guest-{uuid.uuid4().hex[:6]}"
    guest.fill(path, path, login=login, email=own, password=PASSWORD, again=PASSWORD)
    answers = [guest.fill_csrf("/settings/notifications/confirm").status_code for _ in range(6)]
    assert answers == [303] * 4 + [429] * 2  # one was sent when the account was created
