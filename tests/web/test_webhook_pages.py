"""The pages for creating, changing, testing and deleting webhooks."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.browser.people import Insider, make_team
from tests.harness.receiver import Reply
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import add_user
from tests.web.places_kit import age_sign_in
from tests.web.webhooks import Office, Visitor, office, text_of
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.apps.actions import create_app
from workhook.identity.apps.app_schemas import OauthAppCreate
from workhook.identity.policy import SCOPES
from workhook.identity.tokens.issue import OAUTH, issue
from workhook.identity.tokens.lookup import find_actor

__all__ = ["office"]
_SECRET = re.compile(r'id="the-secret"[^>]*>(whsec_[A-Za-z0-9+/]{40})<')
_HOOK = re.compile(r"/webhooks/(\d+)")
_FORM = {"content_type": "json", "which": "choose", "event__task": "on", "active": "1"}


def test_a_generated_secret_is_shown_once_and_signs_deliveries(office: Office) -> None:
    owner = office.visitor()
    assert "No webhooks yet" in owner.get().text
    assert "Generate a secret" in owner.get("/new").text
    made = owner.send(url=office.receiver.url, secret_kind="make", status=201, **_FORM)
    assert "content-encoding" not in made.headers, "a page with a secret is not compressed"
    found = _SECRET.search(made.text)
    assert found is not None
    secret = found[1]
    [ping] = office.receiver.wait_for(1)
    expected = hmac.new(secret.encode(), ping.body, hashlib.sha256).hexdigest()
    assert ping.headers["x-hub-signature-256"] == f"sha256={expected}"
    hook = int(_HOOK.search(made.text)[1])  # type: ignore[index]
    shown = office.api("GET", f"{office.world.repo_path}/hooks/{hook}")
    assert (shown["events"], shown["config"]["secret"]) == (["task"], "********")
    office.deliveries(hook, 1)
    for path in ("", f"/{hook}", f"/{hook}/deliveries", f"/{hook}/verify"):
        assert secret not in owner.get(path).text
    assert "1 delivery in the last 24 hours, 0 failed." in owner.get().text


def test_an_error_is_shown_next_to_its_field(office: Office) -> None:
    owner = office.visitor()
    answer = owner.send(url="ftp://exa mple", retries="x<b>", secret_kind="own", secret="typed it", status=422, **_FORM)
    page = text_of(answer)
    assert "Nothing was saved. Fix the marked fields and try again." in page
    assert 'id="url-fault"' in answer.text
    assert 'id="retries-fault"' in answer.text
    assert "Retries must be a whole number from 0 to 50" in page
    assert 'value="x&lt;b&gt;"' in answer.text, "what was typed is kept"
    assert 'name="event.task" checked' in answer.text
    assert "typed it" not in answer.text, "but a secret is not shown again"
    assert "No webhooks yet" in owner.get().text
    office.hook(events=["task"])
    again = owner.send(url=office.receiver.url, secret_kind="none", status=422, **_FORM)
    assert "Another webhook already sends one of these events to this URL." in again.text


def test_changing_a_webhook_keeps_its_secret(office: Office) -> None:
    hook, owner = office.hook(config={"username": "ada", "password": "pass", "retries": "3"}), office.visitor()
    page = owner.get(f"/{hook}").text
    assert 'value="3"' in page
    assert '<details class="card advanced" open>' in page
    changed: dict[str, Any] = {
        "url": f"{office.receiver.url}/new",
        "content_type": "form",
        "which": "push",
        "rate_limit": "5",
    }
    answer = owner.send(f"/{hook}", username="ada", password="", **changed)
    assert answer.headers["location"] == f"{owner.base}/{hook}"
    shown = office.api("GET", f"{office.world.repo_path}/hooks/{hook}")
    assert (shown["events"], shown["active"]) == (["push"], False)
    assert shown["config"] == {
        "url": f"{office.receiver.url}/new", "content_type": "form", "insecure_ssl": "0", "rate_limit": "5",
        "username": "ada", "secret": "********", "password": "********",
    }  # fmt: skip
    elsewhere = owner.send(f"/{hook}", status=422, **{**changed, "url": "http://127.0.0.9/"}, username="ada")
    assert 'id="password-fault"' in elsewhere.text, "a password is not sent to another host"
    owner.send(f"/{hook}", username="", password="", **changed)
    assert "password" not in office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["config"]


def test_a_new_secret_is_shown_and_the_previous_one_stays_valid_for_a_while(office: Office) -> None:
    secret = "whsec_" + "a" * 40
    hook = office.hook(config={"header_style": "standard", "secret": secret})
    owner = office.visitor()
    assert "Keep signing with the previous secret for" in owner.get(f"/{hook}").text
    made = owner.send(f"/{hook}/secret", secret_kind="make", previous_secret_expires_in="3600", status=200)
    found = _SECRET.search(made.text)
    assert found is not None
    assert "The previous secret also signs until" in owner.get(f"/{hook}").text
    owner.send(f"/{hook}/ping")
    [ping] = office.receiver.wait_for(1)
    assert len(ping.headers["webhook-signature"].split()) == 2
    refused = owner.send(f"/{hook}/secret", secret_kind="own", secret="plain", status=422)
    assert 'id="secret-fault"' in refused.text
    assert "must be whsec_ followed by a base64 key" in text_of(refused)


def test_changing_the_secret_needs_a_recent_sign_in(office: Office) -> None:
    hook, owner = office.hook(config={"secret": "the first"}), office.visitor()
    assert owner.get(f"/{hook}/secret", status=303).headers["location"] == f"{owner.base}/{hook}#secret"
    assert f'action="{owner.base}/{hook}/secret"' in owner.get(f"/{hook}").text
    age_sign_in(office.server, office.team.owner)
    confirm = f"/login/confirm?return_to={quote(f'{owner.base}/{hook}/secret', safe='')}"
    for fields in ({"secret_kind": "make"}, {"secret_kind": "own", "secret": "mine"}, {"secret_kind": "none"}):
        assert owner.send(f"/{hook}/secret", status=303, **fields).headers["location"] == confirm
    assert owner.get(f"/{hook}/secret", status=303).headers["location"] == confirm
    new = f"/login/confirm?return_to={quote(f'{owner.base}/new', safe='')}"
    assert owner.get("/new", status=303).headers["location"] == new
    made = owner.send(url=f"{office.receiver.url}/other", secret_kind="make", status=303, **_FORM)
    assert made.headers["location"] == new
    form = {"url": f"{office.receiver.url}/elsewhere", "content_type": "json", "insecure_ssl": "0", **_FORM}
    to_hook = f"/login/confirm?return_to={quote(f'{owner.base}/{hook}', safe='')}"
    assert owner.send(f"/{hook}", status=303, **form).headers["location"] == to_hook
    [kept] = office.api("GET", f"{office.world.repo_path}/hooks")
    assert "elsewhere" not in kept["config"]["url"]
    page = owner.get(f"/{hook}").text
    assert f'action="{owner.base}/{hook}/secret"' not in page
    assert f'href="{owner.base}/{hook}/secret"' in page
    owner.send(f"/{hook}/ping")
    [ping] = office.receiver.wait_for(1)
    expected = hmac.new(b"the first", ping.body, hashlib.sha256).hexdigest()
    assert ping.headers["x-hub-signature-256"] == f"sha256={expected}"


def test_the_page_names_the_header_with_both_signatures(office: Office) -> None:
    owner = office.visitor()
    plain = office.hook(config={"secret": "the first"})
    page = text_of(owner.get(f"/{plain}"))
    assert "All deliveries, including waiting ones, are signed with the new secret" in page
    assert "Keep signing with the previous secret for" not in page
    standard = office.hook(
        config={"url": f"{office.receiver.url}/2", "header_style": "standard", "secret": "whsec_" + "a" * 40}
    )
    page = text_of(owner.get(f"/{standard}"))
    assert "During that time, only webhook-signature (Standard Webhooks) carries both signatures." in page
    owner.send(f"/{standard}/secret", secret_kind="make", previous_secret_expires_in="3600", status=200)
    assert "Only webhook-signature carries both signatures" in text_of(owner.get(f"/{standard}"))


def test_the_two_ways_to_verify_are_distinguished(office: Office) -> None:
    owner = office.visitor()
    made = owner.send(url=office.receiver.url, secret_kind="make", status=201, **_FORM)
    hook = int(_HOOK.search(made.text)[1])  # type: ignore[index]
    for page in (made, owner.get(f"/{hook}/verify")):
        assert "Use the complete secret as the key" in text_of(page)
        assert "Not sent by this webhook." in text_of(page)
        assert f'href="{owner.base}/{hook}#header_style"' in page.text
    owner.send(
        f"/{hook}", url=office.receiver.url, content_type="json", which="push", header_style="standard", active="1"
    )
    assert "This webhook sends this header." in text_of(owner.get(f"/{hook}/verify"))


def test_owners_see_and_delete_webhooks_of_apps(server: Server, office: Office) -> None:
    async def token_of_app(services: Services) -> str:
        async with services.database.transaction() as tx:
            owner = await queries.find_account(tx, office.team.owner.login)
            assert owner is not None
            wanted = OauthAppCreate(name=f"Deploy bot {owner.id}", callback_urls=["https://example.com/"])
            app, _, _ = await create_app(tx, None, owner, wanted)
            return (await issue(tx, OAUTH, owner.id, scopes=SCOPES, app_id=app.id)).token

    made: dict[str, int] = {}
    with server.client(server.run(token_of_app)) as app:
        for path in (office.world.repo_path, office.world.org_path):
            config = {"url": f"{office.receiver.url}{path}", "content_type": "json"}
            body = {"name": "web", "events": ["*"], "active": False, "config": config}
            answer = app.post(f"{path}/hooks", json=body)
            assert answer.is_success, answer.text
            made[path] = answer.json()["id"]
    inside, whole = made.values()
    owner, organization = office.visitor(), f"/{office.world.organization}/-/webhooks"
    page = owner.get()
    assert page.text.count(f'id="hook-{inside}"') == 1
    assert f'id="hook-{whole}"' not in page.text
    assert "created by an OAuth app" in text_of(page)
    assert "Webhooks created by apps" not in page.text
    owner.get(f"/{inside}")
    page = owner.get(organization)
    assert f'id="hook-{inside}"' in page.text
    assert f'id="hook-{whole}"' in page.text
    assert f"{office.world.full_name} ·" in text_of(page)
    assert f"created by Deploy bot {office.team.owner.id}" in text_of(page)
    owner.get(f"{organization}/{whole}", status=404)
    member = office.visitor(office.team.member)
    member.send(f"/by-apps/{inside}/delete", status=403)
    assert owner.send(f"/by-apps/{inside}/delete").headers["location"] == owner.base
    owner.send(f"/by-apps/{inside}/delete", status=404)
    assert f'id="hook-{inside}"' not in owner.get().text
    assert owner.send(f"{organization}/by-apps/{whole}/delete").headers["location"] == organization
    assert "Webhooks created by apps" not in owner.get(organization).text


def test_disabling_and_enabling_can_be_undone(office: Office) -> None:
    hook, owner = office.hook(), office.visitor()
    assert owner.send(f"/{hook}/active", active="1").headers["location"] == f"{owner.base}/{hook}"
    page = owner.get(f"/{hook}").text
    assert "Webhook enabled." in page
    assert f'action="{owner.base}/{hook}/active"' in page.partition('class="toast"')[2]
    assert office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["active"] is True
    owner.send(f"/{hook}/active", active="0")
    assert office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["active"] is False
    assert "Disabled by a user." in owner.get().text


def test_a_sample_event_is_sent_to_a_single_webhook(office: Office) -> None:
    hook, owner = office.hook(events=["push"]), office.visitor()
    other = office.hook(active=True, config={"url": f"{office.receiver.url}/other"})
    office.deliveries(other, 1)  # the ping
    for name in ("task.completed", "push", "issues.opened"):
        led = owner.send(f"/{hook}/test", event=name).headers["location"]
        assert led == f"{owner.base}/{hook}/deliveries?test={name}"
    sent = {each["event"]: each["action"] for each in office.deliveries(hook, 3)}
    assert sent == {"task": "completed", "push": None, "issues": "opened"}
    [task] = office.receiver.events("task")
    payload = task.payload()
    assert payload["repository"]["full_name"] == office.world.full_name, "what is around it is real"
    assert payload["task"]["title"] == "Homepage draft"
    assert "nothing_like_it" in owner.send(f"/{hook}/test", event="nothing_like_it", status=422).text
    assert len(office.deliveries(other, 1)) == 1, "it hears nothing of the tests of another"
    activity = office.api("GET", f"/api/v1/projects/{office.world.project_id}/activity")
    assert "Homepage draft" not in str(activity), "and nothing has happened in the project"


def test_each_event_has_a_page_with_a_sample(office: Office) -> None:
    owner = office.visitor()
    page = owner.get("/events/invoice?action=paid")
    assert "An invoice was created, edited, sent, paid, refunded, credited, voided, or deleted." in page.text
    assert '"action": "paid"' in text_of(page).replace(" :", ":")
    assert 'class="top"' in page.text
    frame = owner.browser.get(f"{owner.base}/events/invoice", headers={"Turbo-Frame": "sample-invoice"}).text
    assert '<turbo-frame id="sample-invoice">' in frame
    assert 'class="top"' not in frame, "only what the form loads into itself"
    owner.get("/events/no_such_event", status=404)
    owner.get("/events/invoice?action=no_such_action", status=404)


def test_a_deleted_webhook_is_gone(office: Office) -> None:
    hook, owner = office.hook(), office.visitor()
    assert owner.send(f"/{hook}/delete").headers["location"] == owner.base
    assert "Webhook deleted." in owner.get().text
    for path in (f"/{hook}", f"/{hook}/deliveries", f"/{hook}/verify", f"/{hook}/deliveries/newest"):
        owner.get(path, status=404)


@pytest.mark.parametrize("who", ["member", "client", "stranger", "owner of another organization"])
def test_only_admins_can_see_and_change_webhooks(office: Office, who: str) -> None:
    hook = office.hook()
    owner = office.visitor()
    [delivery] = (owner.send(f"/{hook}/ping"), office.deliveries(hook, 1))[1]
    other = office.server.run(make_team)
    visitors = {"member": office.team.member, "client": office.team.client, "stranger": other.client}
    visitor = office.visitor(visitors.get(who, other.owner))
    status = 403 if who == "member" else 404
    pages = ["", "/new", f"/{hook}", f"/{hook}/verify", f"/{hook}/deliveries", f"/{hook}/deliveries/newest"]
    pages += [f"/{hook}/deliveries/{delivery['id']}{more}" for more in ("", "/payload.json", "/next")]
    for path in (*pages, "/events/push"):
        assert office.receiver.url not in visitor.get(path, status=status).text
    for path in ("", f"/{hook}", f"/{hook}/active", f"/{hook}/secret", f"/{hook}/ping", f"/{hook}/test"):
        visitor.send(path, status=status, url=office.receiver.url, event="push", **_FORM)
    for path in (f"/{hook}/delete", f"/{hook}/redeliveries", f"/{hook}/deliveries/{delivery['id']}/redeliver"):
        visitor.send(path, status=status)
    assert len(office.deliveries(hook, 1)) == 1
    assert office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["active"] is False


def test_a_webhook_is_found_only_in_its_own_place(office: Office) -> None:
    hook, other = office.hook(), Office(office.server, office.server.run(make_team), office.receiver)
    owner = office.visitor()
    theirs = other.visitor()
    for path in (f"/{hook}", f"/{hook}/deliveries", f"/{hook}/deliveries/newest", f"/{hook}/verify"):
        theirs.get(path, status=404)
        owner.get(f"/{office.world.organization}/-/webhooks{path}", status=404)
    theirs.send(f"/{hook}/delete", status=404)
    theirs.browser.client.close()
    owner.get(f"/{hook}")


def test_a_project_admin_can_manage_webhooks(office: Office) -> None:
    async def add(services: Services) -> Insider:
        token = await add_user(services, office.world, role="admin")
        actor = await find_actor(services.database, token)
        assert actor is not None
        return Insider(actor.user.id, actor.user.login, actor.user.email or "", token)

    visitor = office.visitor(office.server.run(add))
    hook = office.hook()
    visitor.get(f"/{hook}")
    visitor.send(f"/{hook}/ping")
    visitor.send(f"/{hook}/delete")
    assert "No webhooks yet" in visitor.get().text
    visitor.get(f"/{office.world.organization}/-/webhooks", status=404)


def test_an_organization_has_the_same_pages(office: Office) -> None:
    owner = office.visitor(base=f"/{office.world.organization}/-/webhooks")
    assert "No webhooks yet" in owner.get().text
    made = owner.send(url=office.receiver.url, secret_kind="make", status=201, **_FORM)
    hook = int(_HOOK.search(made.text)[1])  # type: ignore[index]
    office.receiver.wait_for(1)
    path = f"{office.world.org_path}/hooks/{hook}/deliveries"
    found = until(lambda: office.api("GET", path))
    assert "ping" in owner.get(f"/{hook}/deliveries").text
    owner.send(f"/{hook}/deliveries/{found[0]['id']}/redeliver")
    owner.send(f"/{hook}/test", event="service.created")
    office.receiver.wait_for(lambda got: any(each.event == "service" for each in got))  # a ping may be last
    owner.send(f"/{hook}/active", active="0")
    owner.send(f"/{hook}/delete")
    member = office.visitor(office.team.member, base=owner.base)
    assert member.browser.get(owner.base).status_code in (403, 404)


# --- webhook forms ---------------------------------------------------------------------------------------------------
# Validation and confirmation in the forms of a webhook, and the explanations on its pages.


AGAIN = "Enter it again. For security, it isn’t kept."


def refused(answer: httpx.Response) -> dict[str, str]:
    """Return the error messages of a form by field."""
    found = re.findall(r'<p class="fault" id="([a-z_]+)-fault"[^>]*>(.*?)</p>', answer.text, re.S)
    return {name: re.sub(r"<[^>]*>", "", text).strip() for name, text in found}


@pytest.mark.parametrize("typed", ["", "  ", "********", "•••"])
def test_an_empty_secret_never_creates_an_unsigned_webhook(office: Office, typed: str) -> None:
    owner = office.visitor()
    own = {"secret_kind": "own", "secret": typed}
    answer = owner.send(url=office.receiver.url, status=422, **own, **_FORM)
    assert refused(answer) == {"secret": "Enter a secret or generate one."}
    assert re.search(r'id="own-secret"[^>]* aria-invalid="true"[^>]* autofocus', answer.text)
    owner.send(url=office.receiver.url, status=422, secret_kind="", **_FORM)
    assert "No webhooks yet" in owner.get().text
    hook = office.hook(config={"secret": "the first"})
    for wrong in (own, {"secret_kind": ""}):
        assert "secret" in refused(owner.send(f"/{hook}/secret", status=422, **wrong))
    assert office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["config"]["secret"] == "********"
    owner.send(f"/{hook}/secret", secret_kind="none", secret=typed)
    assert "secret" not in office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["config"]
    assert 'value="none"' not in owner.get(f"/{hook}").text, "there is none to be removed"


def test_a_refused_form_requests_the_secrets_again(office: Office) -> None:
    owner = office.visitor()
    typed = {"username": "u", "password": "typed-one", "secret_kind": "own", "secret": "typed-two", "retries": "99"}
    answer = owner.send(url=office.receiver.url, status=422, **typed, **_FORM)
    found = refused(answer)
    assert (found["password"], found["secret"]) == (AGAIN, AGAIN)
    assert "typed-" not in answer.text
    assert answer.text.count(" autofocus") == 1
    assert re.search(r'id="password"[^>]* aria-invalid="true"[^>]* autofocus', answer.text), "the first one of the page"
    left = {**typed, "retries": "9", "password": "", "secret": ""}
    answer = owner.send(url=office.receiver.url, status=422, **left, **_FORM)
    assert set(refused(answer)) == {"password", "secret"}
    assert "No webhooks yet" in owner.get().text
    hook = office.hook(config={"username": "u", "password": "kept"})
    settings = {"url": office.receiver.url, "username": "u", "password": "typed-one", "retries": "99", **_FORM}
    assert refused(owner.send(f"/{hook}", status=422, **settings))["password"] == AGAIN


def test_all_errors_in_a_form_are_reported_at_once(office: Office) -> None:
    owner = office.visitor()
    wrong = {"which": "choose", "retries": "99", "header_style": "standard", "secret_kind": "own", "secret": "plain"}
    answer = owner.send(url="ftp://x", status=422, username="ada", content_type="json", **wrong)
    found = refused(answer)
    assert set(found) == {"url", "events", "password", "retries", "secret"}
    assert found["events"] == "Choose at least one event."
    assert found["password"] == "Enter the password for this username."
    assert re.search(r'id="url"[^>]* autofocus', answer.text)


def test_a_password_without_a_username_is_allowed_and_kept(office: Office) -> None:
    """As in the API, because some receivers check only the password."""
    hook, owner = office.hook(config={"password": "alone"}), office.visitor()
    owner.send(f"/{hook}", url=office.receiver.url, username="", password="", status=303, **_FORM)
    assert office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["config"]["password"] == "********"
    owner.send(f"/{hook}", url=office.receiver.url, username="ada", password="", status=303, **_FORM)
    assert office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["config"]["username"] == "ada"


def test_a_webhook_without_a_secret_warns_about_missing_signatures(office: Office) -> None:
    signed, owner = office.hook(), office.visitor()
    plain = office.hook(config={"url": f"{office.receiver.url}/plain", "secret": ""})
    assert "Each delivery has the header X-Hub-Signature-256" in text_of(owner.get(f"/{signed}/verify"))
    page = text_of(owner.get(f"/{plain}/verify"))
    assert "This webhook has no secret, so its deliveries aren’t signed." in page
    assert "Each delivery has the header" not in page
    assert "With a secret, each delivery has the header X-Hub-Signature-256" in page


def test_organization_webhooks_are_reachable_by_keyboard(office: Office) -> None:
    owner = office.visitor()
    page = owner.get(f"/{office.world.organization}/-/webhooks").text
    assert f'href="/{office.world.organization}/-/webhooks" data-go="w"' in page


def version_of(visitor: Visitor, hook: int) -> str:
    found = re.search(r'name="version" value="(\d+)"', visitor.get(f"/{hook}").text)
    assert found is not None
    return found[1]


def test_an_outdated_form_overwrites_nothing(office: Office) -> None:
    hook, owner = office.hook(), office.visitor()
    opened = version_of(owner, hook)
    saved = {"version": opened, **_FORM, "url": f"{office.receiver.url}/new"}
    owner.send(f"/{hook}", status=303, **saved)
    late = owner.send(f"/{hook}", status=422, **{**saved, "url": office.receiver.url, "retries": "3"})
    assert "This webhook has changed since you opened the page." in late.text
    assert 'value="3"' in late.text, "what was typed stays"
    assert f'name="version" value="{version_of(owner, hook)}"' in late.text, "so that it can be saved all the same"
    config = office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["config"]
    assert config["url"] == f"{office.receiver.url}/new"
    owner.send(f"/{hook}/active", active="0")
    owner.send(f"/{hook}", status=422, **{**saved, "version": opened})
    assert office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["active"] is False
    owner.send(f"/{hook}", status=303, **{**saved, "version": version_of(owner, hook)})


def test_disabling_asks_before_pending_deliveries_are_dropped(office: Office) -> None:
    office.receiver.reply = lambda received: Reply(500 if received.event == "push" else 200)
    hook, owner = office.hook(active=True), office.visitor()
    office.deliveries(hook, 1)
    office.publish(hook, {"number": 1})
    assert "1 event is waiting to be sent." in text_of(owner.get(f"/{hook}/deliveries"))
    page = text_of(owner.get(f"/{hook}"))
    assert "1 event is waiting to be sent. Disabling the webhook permanently discards them" in page
    assert owner.send(f"/{hook}/active", active="0").headers["location"] == f"{owner.base}/{hook}?off=1#off"
    assert '<details id="off" open>' in owner.get(f"/{hook}?off=1").text
    unticked = {"url": office.receiver.url, "content_type": "json", "which": "all"}
    assert "active" in refused(owner.send(f"/{hook}", status=422, **unticked))
    assert office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["active"] is True
    owner.send(f"/{hook}/active", active="0", drop="1")
    page = owner.get(f"/{hook}").text
    assert "Webhook disabled. 1 waiting event was discarded." in page
    assert "Undo" not in page.partition('class="toast"')[2].partition("</main>")[0].partition("<template")[0]
    assert office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["active"] is False


def test_a_style_that_needs_another_secret_is_marked(office: Office) -> None:
    hook, owner = office.hook(config={"secret": "plain"}), office.visitor()
    answer = owner.send(f"/{hook}", status=422, url=office.receiver.url, header_style="standard", **_FORM)
    assert "whsec_" in refused(answer)["header_style"]


def test_users_without_access_to_webhooks_get_a_link_back(office: Office) -> None:
    member = office.visitor(office.team.member)
    page = member.get(status=403)
    assert f'href="/{office.world.full_name}">Go to the project</a>' in page.text
    assert "Ask one for help." in text_of(page)
    page = member.get(f"/{office.world.organization}/-/webhooks", status=403)
    assert f'href="/{office.world.organization}">Go to the organization</a>' in page.text
    hidden = office.visitor(office.server.run(make_team).owner).get(status=404)
    assert "Go to the project" not in hidden.text, "whether there is one is not told"


def test_custom_events_are_explained_at_the_event_selection(office: Office) -> None:
    page = office.visitor().get("/new")
    assert 'href="/docs/guide/integrators/publish#custom-event-names"' in page.text
    assert "Workhook, GitHub, and Standard Webhooks" in text_of(page)


def test_the_list_states_the_period_of_its_figures(office: Office) -> None:
    office.hook()
    assert "Charts and figures cover the last 24 hours" in text_of(office.visitor().get())


def test_a_masked_password_is_refused(office: Office) -> None:
    owner = office.visitor()
    for name in ("", "ada"):
        masked = {"username": name, "password": "********", "secret_kind": "none"}
        assert "password" in refused(owner.send(url=office.receiver.url, status=422, **masked, **_FORM))
    hook = office.hook(config={"secret": None})
    for name in ("", "ada"):
        masked = {"username": name, "password": "********", "url": f"{office.receiver.url}/x"}
        assert "password" in refused(owner.send(f"/{hook}", status=422, **masked, **_FORM))
    owner.send(f"/{hook}", status=303, url=f"{office.receiver.url}/x", username="", **_FORM)
    assert "secret" not in office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["config"]
