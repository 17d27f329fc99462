"""What the forms of a webhook refuse, ask again and ask first, and what its pages explain."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.browser.people import make_team
from tests.harness.receiver import Reply
from tests.web.webhooks import Office, Visitor, office, text_of

__all__ = ["office"]
_FORM = {"content_type": "json", "which": "choose", "event__task": "on", "active": "1"}
AGAIN = "Enter it again: what you typed is not kept."


def refused(answer: httpx.Response) -> dict[str, str]:
    """What a form says of its fields, by their names."""
    found = re.findall(r'<p class="fault" id="([a-z_]+)-fault"[^>]*>(.*?)</p>', answer.text, re.S)
    return {name: re.sub(r"<[^>]*>", "", text).strip() for name, text in found}


@pytest.mark.parametrize("typed", ["", "  ", "********", "•••"])
def test_an_own_secret_that_is_empty_never_makes_an_unsigned_webhook(office: Office, typed: str) -> None:
    owner = office.visitor()
    own = {"secret_kind": "own", "secret": typed}
    answer = owner.send(url=office.receiver.url, status=422, **own, **_FORM)
    assert refused(answer) == {"secret": "Enter the secret, or choose to have one made."}
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


def test_a_form_that_comes_back_asks_again_for_what_it_does_not_keep(office: Office) -> None:
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


def test_a_form_says_all_that_is_wrong_at_once(office: Office) -> None:
    owner = office.visitor()
    wrong = {"which": "choose", "retries": "99", "header_style": "standard", "secret_kind": "own", "secret": "plain"}
    answer = owner.send(url="ftp://x", status=422, username="ada", content_type="json", **wrong)
    found = refused(answer)
    assert set(found) == {"url", "events", "password", "retries", "secret"}
    assert found["events"] == "Choose at least one event."
    assert found["password"] == "Enter the password that goes with the user name."
    assert re.search(r'id="url"[^>]* autofocus', answer.text)


def test_a_password_alone_is_allowed_and_stays(office: Office) -> None:
    """As in the API: some receivers look at the password only."""
    hook, owner = office.hook(config={"password": "alone"}), office.visitor()
    owner.send(f"/{hook}", url=office.receiver.url, username="", password="", status=303, **_FORM)
    assert office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["config"]["password"] == "********"
    owner.send(f"/{hook}", url=office.receiver.url, username="ada", password="", status=303, **_FORM)
    assert office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["config"]["username"] == "ada"


def test_a_webhook_without_a_secret_is_told_that_nothing_is_signed(office: Office) -> None:
    signed, owner = office.hook(), office.visitor()
    plain = office.hook(config={"url": f"{office.receiver.url}/plain", "secret": ""})
    assert "Each delivery has a header X-Hub-Signature-256" in text_of(owner.get(f"/{signed}/verify"))
    page = text_of(owner.get(f"/{plain}/verify"))
    assert "This webhook has no secret: nothing is signed." in page
    assert "Each delivery has a header" not in page
    assert "With one, each delivery has a header X-Hub-Signature-256" in page


def test_the_webhooks_of_an_organization_are_reached_by_the_keyboard(office: Office) -> None:
    owner = office.visitor()
    page = owner.get(f"/{office.world.organization}/-/webhooks").text
    assert f'href="/{office.world.organization}/-/webhooks" data-go="w"' in page


def version_of(visitor: Visitor, hook: int) -> str:
    found = re.search(r'name="version" value="(\d+)"', visitor.get(f"/{hook}").text)
    assert found is not None
    return found[1]


def test_a_form_that_is_out_of_date_takes_back_nothing(office: Office) -> None:
    hook, owner = office.hook(), office.visitor()
    opened = version_of(owner, hook)
    saved = {"version": opened, **_FORM, "url": f"{office.receiver.url}/new"}
    owner.send(f"/{hook}", status=303, **saved)
    late = owner.send(f"/{hook}", status=422, **{**saved, "url": office.receiver.url, "retries": "3"})
    assert "Somebody has changed this webhook since you opened the page." in late.text
    assert 'value="3"' in late.text, "what was typed stays"
    assert f'name="version" value="{version_of(owner, hook)}"' in late.text, "so that it can be saved all the same"
    config = office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["config"]
    assert config["url"] == f"{office.receiver.url}/new"
    owner.send(f"/{hook}/active", active="0")
    owner.send(f"/{hook}", status=422, **{**saved, "version": opened})
    assert office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["active"] is False
    owner.send(f"/{hook}", status=303, **{**saved, "version": version_of(owner, hook)})


def test_turning_off_asks_before_it_drops_what_waits(office: Office) -> None:
    office.receiver.reply = lambda received: Reply(500 if received.event == "push" else 200)
    hook, owner = office.hook(active=True), office.visitor()
    office.deliveries(hook, 1)
    office.publish(hook, {"number": 1})
    assert "1 event waits for it." in text_of(owner.get(f"/{hook}/deliveries"))
    page = text_of(owner.get(f"/{hook}"))
    assert "1 event waits for it. They are dropped when it is turned off" in page
    assert owner.send(f"/{hook}/active", active="0").headers["location"] == f"{owner.base}/{hook}?off=1#off"
    assert '<details id="off" open>' in owner.get(f"/{hook}?off=1").text
    unticked = {"url": office.receiver.url, "content_type": "json", "which": "all"}
    assert "active" in refused(owner.send(f"/{hook}", status=422, **unticked))
    assert office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["active"] is True
    owner.send(f"/{hook}/active", active="0", drop="1")
    page = owner.get(f"/{hook}").text
    assert "The webhook is off. 1 event that waited was dropped." in page
    assert "Undo" not in page.partition('class="toast"')[2].partition("</main>")[0].partition("<template")[0]
    assert office.api("GET", f"{office.world.repo_path}/hooks/{hook}")["active"] is False


def test_a_style_that_needs_another_secret_is_marked(office: Office) -> None:
    hook, owner = office.hook(config={"secret": "plain"}), office.visitor()
    answer = owner.send(f"/{hook}", status=422, url=office.receiver.url, header_style="standard", **_FORM)
    assert "whsec_" in refused(answer)["header_style"]


def test_who_may_not_see_webhooks_is_led_back(office: Office) -> None:
    member = office.visitor(office.team.member)
    page = member.get(status=403)
    assert f'href="/{office.world.full_name}">To the project</a>' in page.text
    assert "Ask one of them." in text_of(page)
    page = member.get(f"/{office.world.organization}/-/webhooks", status=403)
    assert f'href="/{office.world.organization}">To the organization</a>' in page.text
    hidden = office.visitor(office.server.run(make_team).owner).get(status=404)
    assert "To the project" not in hidden.text, "whether there is one is not told"


def test_own_events_are_explained_where_events_are_chosen(office: Office) -> None:
    page = office.visitor().get("/new")
    assert 'href="/docs/guide/how-to#an-event-with-a-name-of-your-own"' in page.text
    assert "Workhook's, GitHub's and Standard Webhooks'" in text_of(page)


def test_the_list_names_the_time_of_its_figures(office: Office) -> None:
    office.hook()
    assert "Charts and figures are of the last 24 hours" in text_of(office.visitor().get())


def test_a_password_that_is_a_mask_is_refused(office: Office) -> None:
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
