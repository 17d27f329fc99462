"""What the page of a delivery says of it: how much is shown, why it failed, and what comes next."""

from __future__ import annotations

import re

import pytest

from tests.harness.receiver import Reply
from tests.web.webhooks import Office, listening, office, text_of
from workhook.hooks.records import DeliveryResponse
from workhook.web.hooks import outcomes

__all__ = ["office"]


def test_the_beginning_of_a_payload_says_how_much_it_is(office: Office) -> None:
    hook, owner = listening(office), office.visitor()
    delivery = office.publish(hook, {"n": list(range(9000))})[0]
    page = text_of(owner.get(f"/{hook}/deliveries/{delivery['id']}"))
    shown = re.search(r"The first (\d+) of (\d+) characters are shown\.", page)
    assert shown is not None
    assert int(shown[1]) <= 32 * 1024 < int(shown[2])


@pytest.mark.parametrize(
    ("size", "says"),
    [
        (240_000, "The receiver answered with 234 KiB, of which the first 64 KiB are kept."),
        (64 * 1024, ""),
        (40_000, ""),
    ],
)
def test_only_what_is_cut_is_said_to_be(office: Office, size: int, says: str) -> None:
    office.receiver.reply = lambda received: Reply(200, {}, b"y" * size)
    hook, owner = listening(office), office.visitor()
    delivery = office.publish(hook, {})[0]
    page = text_of(owner.get(f"/{hook}/deliveries/{delivery['id']}"))
    kept = min(size, 64 * 1024)
    assert f"The first 32768 of {kept} characters are shown." in page
    assert (says in page) if says else ("kept." not in page)
    assert "Download what is kept of it" in page
    file = owner.get(f"/{hook}/deliveries/{delivery['id']}/response.txt")
    assert file.content == b"y" * kept
    assert "sandbox" in file.headers["content-security-policy"]


def test_a_body_of_unknown_length_is_not_said_to_be_longer() -> None:
    whole = DeliveryResponse({}, "\ufffd" * 30_000)
    assert outcomes.kept(whole) == "", "30,000 bytes that are no UTF-8"
    unknown = DeliveryResponse({}, "y" * 64 * 1024)
    assert "may have been longer" in outcomes.kept(unknown)


def test_a_redirect_says_that_it_is_not_followed_and_where_it_leads(office: Office) -> None:
    office.receiver.reply = lambda received: Reply(301, {"Location": "https://elsewhere.example/<hooks>"})
    hook, owner = listening(office), office.visitor()
    delivery = office.publish(hook, {})[0]
    assert "301 push" in text_of(owner.get(f"/{hook}/deliveries"))
    assert "redirects are not followed" in text_of(owner.get(f"/{hook}/deliveries"))
    page = text_of(owner.get(f"/{hook}/deliveries/{delivery['id']}"))
    assert "Invalid HTTP Response: 301 (redirects are not followed)" in page
    assert "It leads to: https://elsewhere.example/<hooks>" in page


def test_what_is_known_of_a_failure_is_said_once() -> None:
    assert outcomes.words("timed out") == "no answer: it took too long"
    limit = "it took longer than 10 s, the most that an answer may take"
    assert outcomes.reason("timed out", limit_s=10.0) == limit
    refused = "failed to connect to host"
    assert "the name was not found" in outcomes.words(refused, url="https://example.com/x")
    for url in ("http://127.0.0.1:9/x", "http://[::1]:9/"):
        assert outcomes.words(refused, url=url) == "no answer: the connection was refused"
    assert "larger than 64 KB" in outcomes.words("malformed response")
    assert outcomes.words("Invalid HTTP Response: 304") == "Invalid HTTP Response: 304"


def test_only_the_last_attempt_says_what_comes_next(office: Office) -> None:
    office.receiver.reply = lambda received: Reply(500 if received.event == "push" else 200)
    hook, owner = listening(office, retries="3"), office.visitor()
    first = office.publish(hook, {})[0]
    assert "will be retried" in text_of(owner.get(f"/{hook}/deliveries/{first['id']}"))
    owner.send(f"/{hook}/deliveries/{first['id']}/redeliver")
    second = office.deliveries(hook, 3)[0]
    page = owner.get(f"/{hook}/deliveries").text
    old, new = (page.partition(f'id="delivery-{each["id"]}"')[2].partition("</tr>")[0] for each in (first, second))
    assert "tried again" in old
    assert "will be retried" not in old
    assert "will be retried" in new
    page = text_of(owner.get(f"/{hook}/deliveries/{first['id']}"))
    assert "State tried again" in page


def test_a_delivery_has_the_places_of_its_webhook_and_neighbours(office: Office) -> None:
    office.receiver.reply = lambda received: Reply(200)
    hook, owner = listening(office), office.visitor()
    other = office.hook(config={"url": f"{office.receiver.url}/other"})
    newest, middle, oldest = office.publish(hook, {"number": 1}, {"number": 2})
    owner.send(f"/{other}/ping")
    office.deliveries(other, 1)
    page = owner.get(f"/{hook}/deliveries/{middle['id']}").text
    for path in ("", "/deliveries", "/verify"):
        assert f'href="{owner.base}/{hook}{path}"' in page.partition('class="places"')[2]
    assert f'rel="prev" href="{owner.base}/{hook}/deliveries/{newest["id"]}"' in page
    assert f'rel="next" href="{owner.base}/{hook}/deliveries/{oldest["id"]}"' in page
    assert 'rel="prev"' not in owner.get(f"/{hook}/deliveries/{newest['id']}").text, "those of others are not next"
    assert 'rel="next"' not in owner.get(f"/{hook}/deliveries/{oldest['id']}").text
