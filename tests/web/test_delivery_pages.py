"""The pages of deliveries: the list, a delivery with its request and response, and redelivering."""

from __future__ import annotations

import json
import re
import subprocess
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.harness.receiver import Received, Reply
from tests.harness.server import MANUAL_MOST
from tests.harness.waiting import until
from tests.web.webhooks import Office, Visitor, listening, office, text_of
from workhook.hooks.schemas import DeliveryResponse
from workhook.web.hooks import outcomes

__all__ = ["office"]
_ROW = re.compile(r'<tr id="delivery-(\d+)">')
HOSTILE = {
    "text": "</pre><script>alert(1)</script> \u202edesrever\u202c \u200bzero {{ 7 * 7 }} %(name)s",
    "emoji": "👩‍👩‍👧 ʘ",
    "quote": "it's \\ $HOME `id`",
}


def rows(visitor: Visitor, path: str) -> list[int]:
    """Return the deliveries listed on the page."""
    return [int(each) for each in _ROW.findall(visitor.get(path).text)]


def failing(received: Received) -> Reply:
    code = 200 if received.payload().get("fine") else 503
    return Reply(code, {"X-Odd": "<i>\u00fc</i>"}, json.dumps({"answer": code, "mark": "\u202e<b>"}).encode())


def test_deliveries_are_filtered_and_paginated(office: Office) -> None:
    hook, owner = office.hook(active=True, config={"retries": "0"}), office.visitor()
    office.receiver.reply = failing
    office.deliveries(hook, 1)
    sent = office.publish(hook, *({"fine": number % 3 == 0, "number": f"n{number}."} for number in range(32)))
    issue = office.publish(hook, {"fine": True}, event="issues")[0]
    first = rows(owner, f"/{hook}/deliveries")
    assert len(first) == 30
    assert first[0] == issue["id"]
    more = re.search(r'rel="next" href="([^"]+)"', owner.get(f"/{hook}/deliveries").text)
    assert more is not None
    older = owner.get(more[1])
    assert len(_ROW.findall(older.text)) == 4
    assert 'rel="prev"' in older.text
    assert "data-poll-url-value" not in older.text, "only the newest ones come and go"
    failed = [each["id"] for each in sent if each["status_code"] == 503]
    assert rows(owner, f"/{hook}/deliveries?status=failure") == failed
    for name in ("issues", "Issues"):
        assert rows(owner, f"/{hook}/deliveries?event={name}&status=") == [issue["id"]]
    assert 'name="guid"' in owner.get(f"/{hook}/deliveries").text
    assert rows(owner, f"/{hook}/deliveries?guid={issue['guid']}") == [issue["id"]]
    since = sent[3]["delivered_at"]
    assert len(rows(owner, f"/{hook}/deliveries?since={since}")) >= 4
    assert rows(owner, f"/{hook}/deliveries?until=2020-01-01T00:00") == []
    assert rows(owner, f"/{hook}/deliveries?code=503") == failed
    assert rows(owner, f"/{hook}/deliveries?q=N7.") == [sent[32 - 1 - 7]["id"]]
    assert rows(owner, f"/{hook}/deliveries?q=n7.&code=200") == []
    looked = text_of(owner.get(f"/{hook}/deliveries?q=n7."))
    assert re.search(r"Searched 34 deliveries, back to .* UTC : 1 match\.", looked)
    assert "No matches" in owner.get(f"/{hook}/deliveries?q=%3Cnowhere%3E").text
    assert rows(owner, f"/{hook}/deliveries?code=5xx") == failed
    assert rows(owner, f"/{hook}/deliveries?code=4xx") == []
    for wrong in (
        "since=yesterday",
        "code=9",
        "code=6xx",
        "status=odd",
        "since=2026-01-02T00:00&until=2026-01-01T00:00",
    ):
        page = owner.get(f"/{hook}/deliveries?{wrong}", status=422)
        assert 'id="f-faults"' in page.text
        assert "No matches" not in page.text, "nothing was looked for"
    assert "Did you mean push" in owner.get(f"/{hook}/deliveries?event=pus").text
    owner.get(f"/{hook}/deliveries?cursor=nonsense", status=400)


def test_hostile_texts_are_escaped(office: Office) -> None:
    hook, owner = office.hook(active=True, config={"retries": "0"}), office.visitor()
    office.receiver.reply = failing
    office.deliveries(hook, 1)
    found = office.publish(hook, HOSTILE)[0]
    page = owner.get(f"/{hook}/deliveries/{found['id']}").text
    assert "<script>alert" not in page
    assert "&lt;/pre&gt;&lt;script&gt;" in page
    assert "{{ 7 * 7 }}" in page
    assert "\\u202edesrever\\u202c \\u200bzero" in page
    assert "\\u202e&lt;b&gt;" in page, "in the response as well"
    assert "👩‍👩‍👧" in page
    assert not set(page) & set("\u202e\u202c\u200b")
    assert "Invalid HTTP Response: 503" in page
    searched = owner.get(f"/{hook}/deliveries?q=%3Cscript%3E&event=%22%3E%3Cscript%3E")
    assert "<script>" not in searched.text.replace('<script type="', "").replace("<script></", "")


def test_a_large_payload_is_truncated_and_can_be_downloaded(office: Office) -> None:
    hook, owner = office.hook(active=True), office.visitor()
    office.deliveries(hook, 1)
    found = office.publish(hook, {"text": "x" * 1_000_000})[0]
    page = owner.get(f"/{hook}/deliveries/{found['id']}")
    assert len(page.text) < 150_000
    assert re.search(r"Showing the first 32768 of 1\d{6} characters\.", page.text)
    assert re.search(r'payload\.json"[^>]*>Download full payload \(9\d\d KiB\)', page.text)
    assert "@payload.json" in page.text
    assert re.search(r'payload\.json"[^>]*>Download payload\.json<', page.text), "which the command needs"
    assert "YOUR_CREDENTIALS" not in page.text
    raw = owner.get(f"/{hook}/deliveries/{found['id']}/payload.json")
    assert raw.content == office.receiver.events("push")[0].body
    assert raw.headers["content-disposition"] == 'attachment; filename="payload.json"'
    assert "sandbox" in raw.headers["content-security-policy"]
    search = text_of(owner.get(f"/{hook}/deliveries?q=xxxx"))
    assert "1 payload was too large to search." in search


@pytest.mark.parametrize("content_type", ["json", "form"])
def test_the_curl_command_sends_the_same_bytes(office: Office, content_type: str) -> None:
    config = {"content_type": content_type, "username": "ada", "password": "pass-word"}
    hook, owner = office.hook(active=True, config=config), office.visitor()
    office.deliveries(hook, 1)
    found = office.publish(hook, HOSTILE)[0]
    page = owner.get(f"/{hook}/deliveries/{found['id']}").text
    command = re.search(r'<pre id="curl"[^>]*>(.*?)</pre>', page, re.S)
    assert command is not None
    shown = 'curl() { printf "%s\\0" "$@"; }\n' + unescape(command[1])
    given = subprocess.run(["bash", "-c", shown], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}).stdout
    words = given.split(b"\0")[:-1]
    sent = office.receiver.events("push")[0]
    assert words[0].decode() == office.receiver.url
    assert words[-2:] == [b"--data-binary", sent.body]
    headers = dict(each.decode().split(": ", 1) for each in words[2:-2:2])
    assert headers["X-Hub-Signature-256"] == sent.headers["x-hub-signature-256"]
    assert headers["Authorization"] == "YOUR_CREDENTIALS"
    assert "pass-word" not in page


def test_attempts_are_linked_and_compared(office: Office) -> None:
    hook, owner = office.hook(active=True, config={"retries": "0"}), office.visitor()
    office.receiver.reply = failing
    office.deliveries(hook, 1)
    first = office.publish(hook, {"number": 1})[0]
    address = f"/{hook}/deliveries/{first['id']}"
    assert "1: 503" in owner.get(address).text
    office.receiver.reply = lambda received: Reply(200, {}, b'{"answer": 200, "mark": "new"}')
    answer = owner.send(f"{address}/redeliver")
    assert answer.headers["location"] == f"{owner.base}{address}/next"
    led: Any = until(
        lambda: again if (again := owner.browser.get(owner.base + f"{address}/next")).is_redirect else None
    )
    second = int(led.headers["location"].rpartition("/")[2])
    assert second == office.deliveries(hook, 3)[0]["id"]
    page = owner.get(f"/{hook}/deliveries/{second}")
    assert "Redelivered successfully." in page.text
    assert f'href="{owner.base}{address}" class="chip bad"' in page.text
    assert 'aria-current="page" class="chip good"' in page.text
    compared = owner.get(f"/{hook}/deliveries/{second}?with={first['id']}").text
    said = text_of(owner.get(f"/{hook}/deliveries/{second}?with={first['id']}"))
    assert "Compared with attempt 1" in compared
    assert "The payloads are identical." in compared
    assert "X-Odd &lt;i" not in compared
    assert "Response: X-Odd \u2013 <i>" in said
    from_the_first = text_of(owner.get(f"{address}?with={second}"))
    for either in (said, from_the_first):
        assert '+ "answer": 200' in either, "the newer one"
        assert '- "answer": 503' in either
    assert "delivered later" in owner.get(f"/{hook}/deliveries").text
    owner.get(f"/{hook}/deliveries/{second}?with=1234567", status=404)
    owner.get(f"/{hook}/deliveries/{second}?with=x", status=404)


def test_a_pending_attempt_is_shown(office: Office) -> None:
    """The page says that the receiver has not answered yet, and refreshes itself even without scripts."""
    hook, owner = office.hook(active=True), office.visitor()
    [ping] = office.deliveries(hook, 1)
    office.receiver.close()
    page = owner.get(f"/{hook}/deliveries/{ping['id']}/next").text
    assert "Redelivering…" in page
    assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in page
    assert f'data-poll-url-value="{owner.base}/{hook}/deliveries/newest" data-poll-mark-value="{ping["id"]}"' in page
    assert owner.get(f"/{hook}/deliveries/newest").text == str(ping["id"])


def test_all_failed_deliveries_are_redelivered(office: Office) -> None:
    hook, owner = office.hook(active=True, config={"retries": "0"}), office.visitor()
    office.receiver.reply = failing
    office.deliveries(hook, 1)
    sent = office.publish(hook, *({"fine": False, "number": number} for number in range(3)), {"fine": True})
    office.receiver.reply = lambda received: Reply()
    wrong = owner.send(f"/{hook}/redeliveries", since="soon", status=422)
    assert "From (UTC) must be a date and a time" in wrong.text
    for how in ("get", "send"):
        unknown = (
            owner.get(f"/{hook}/redeliveries/new?event=pushh", status=422)
            if how == "get"
            else owner.send(f"/{hook}/redeliveries", event="pushh", status=422)
        )
        assert "Unknown event “pushh”. Did you mean push" in unknown.text
    assert "Nothing to redeliver" in owner.get(f"/{hook}/redeliveries/new?until=2020-01-01T00:00").text
    asked = owner.get(f"/{hook}/redeliveries/new?since=2020-01-01T00:00&event=push").text
    assert "3 events to redeliver" in asked
    assert '<input type="hidden" name="since" value="2020-01-01T00:00">' in asked
    none = owner.send(f"/{hook}/redeliveries", until="2020-01-01T00:00").headers["location"]
    assert "0 events queued." in owner.get(none).text
    answer = owner.send(f"/{hook}/redeliveries", since="2020-01-01T00:00", event="push")
    page = until(
        lambda: text if "All deliveries checked." in (text := owner.get(answer.headers["location"]).text) else ""
    )
    assert "3 events queued." in page
    assert '<progress id="progress" max="100" value="100">' in page
    until(lambda: owner.get(f"{answer.headers['location']}/progress").text == "100 3 3 0 0")
    ended = text_of(owner.get(answer.headers["location"]))
    assert "Succeeded 3 Failed 0 Waiting 0" in ended
    again = office.deliveries(hook, len(sent) + 3)
    assert all(each["status_code"] == 200 and each["event"] == "push" for each in again[:3])
    assert text_of(owner.get(f"/{hook}/deliveries?status=failure&event=push")).count("delivered later") == 3
    owner.get(f"/{hook}/redeliveries/999999", status=404)


def test_the_rate_limit_is_explained(office: Office) -> None:
    hook, owner = office.hook(), office.visitor()
    with office.server.client(office.world.token) as client:
        pings = (client.post(f"{office.world.repo_path}/hooks/{hook}/pings") for _ in range(2 * MANUAL_MOST))
        # A minute may end during the loop.
        assert next(each for each in pings if not each.is_success).status_code == 403
    refused = owner.send(f"/{hook}/ping", status=429)
    assert "Too many pings, tests, and redeliveries. Try again in" in refused.text
    assert 1 <= int(refused.headers["retry-after"]) <= 61
    assert "Too many" in owner.send(f"/{hook}/test", event="push", status=429).text


def test_a_test_event_is_marked_and_needs_an_event_type(office: Office) -> None:
    hook, owner = listening(office), office.visitor()
    for event in ("", ".opened"):
        assert "Choose an event first." in text_of(owner.send(f"/{hook}/test", event=event, status=422))
    owner.send(f"/{hook}/test", event="issues.opened")
    tried = office.deliveries(hook, 2)[0]
    [published] = office.publish(hook, {"number": 1}, event="issues")[:1]
    page = owner.get(f"/{hook}/deliveries").text
    rows = {
        each: page.partition(f'id="delivery-{each}"')[2].partition("</tr>")[0]
        for each in (tried["id"], published["id"])
    }
    assert ">test event</span>" in rows[tried["id"]]
    assert ">test event</span>" not in rows[published["id"]]
    assert f"?guid={tried['guid']}" in rows[tried["id"]]
    assert f"<code>…{tried['guid'][-8:]}</code>" in rows[tried["id"]]
    assert ">test event</span>" in owner.get(f"/{hook}/deliveries/{tried['id']}").text


def test_a_test_of_a_hook_event_is_marked_and_a_real_one_is_not(office: Office) -> None:
    hook, owner = listening(office), office.visitor()
    owner.send(f"/{hook}/test", event="hook.deactivated")
    tried = office.deliveries(hook, 2)[0]
    office.receiver.reply = lambda received: Reply(410 if received.path.endswith("/gone") else 200)
    gone = office.hook(config={"url": f"{office.receiver.url}/gone", "retries": "0"})
    owner.send(f"/{gone}/active", active="1")
    office.api("POST", f"{office.world.repo_path}/events", {"event": "push", "payload": {}})
    found = office.deliveries(hook, 4)
    real = next(each for each in found if each["event"] == "hook" and each["id"] != tried["id"])
    assert ">test event</span>" in owner.get(f"/{hook}/deliveries/{tried['id']}").text
    assert ">test event</span>" not in owner.get(f"/{hook}/deliveries/{real['id']}").text
    assert owner.get(f"/{hook}/deliveries").text.count(">test event</span>") == 1
    for path in ("", "/deliveries", "/verify", f"/deliveries/{office.deliveries(gone, 1)[0]['id']}"):
        page = text_of(owner.get(f"/{gone}{path}"))
        assert page.count("Disabled by Workhook: The receiver responded with 410 Gone.") == 1, path


def test_a_test_returns_to_the_deliveries_and_keeps_its_event_selected(office: Office) -> None:
    hook, owner = office.hook(), office.visitor()
    assert f'action="{owner.base}/{hook}/test"' in owner.get(f"/{hook}/deliveries").text
    answer = owner.send(f"/{hook}/test", event="invoice.paid")
    page = owner.get(answer.headers["location"]).text
    assert "<option selected>invoice.paid</option>" in page
    assert page.count("<option selected>") == 1
    assert "<option selected>task.created</option>" in owner.get(f"/{hook}/deliveries").text


def test_filters_accept_what_the_page_shows(office: Office) -> None:
    hook, owner = listening(office), office.visitor()
    for number, action in enumerate(("opened", "closed"), 2):
        body = {
            "event": "issues",
            "action": action,
            "payload": {"ref": "refs/heads/live", "text": "a, b: c", "n": [1, 2]},
        }
        office.api("POST", f"{office.world.repo_path}/events", body)
        office.deliveries(hook, number)

    def found(**query: str) -> int:
        return owner.get(f"/{hook}/deliveries?{urlencode(query)}").text.count('id="delivery-')

    assert [found(event=each) for each in ("issues", "issues.opened", "issues.closed", "issues.edited")] == [2, 1, 1, 0]
    for shown in ('"ref": "refs/heads/live"', '"text": "a, b: c"', '"a, b: c",', "a, b: c", '"ref":"refs/heads/live"'):
        assert found(q=shown) == 2, shown
    assert found(q='"ref": "refs/heads/dead"') == 0


def test_a_missing_response_is_distinguished_from_an_error_status(office: Office) -> None:
    owner = office.visitor()
    dead = listening(office, url="http://127.0.0.1:9")
    office.publish(dead, {})
    page = text_of(owner.get(f"/{dead}/deliveries"))
    assert "no response push" in page
    assert "host not found or connection refused" in page
    assert page.count("no response") == 2, "once in the row of each"
    assert " 502 " not in page.partition("State")[2]
    office.receiver.reply = lambda received: Reply(502)
    living = listening(office)
    office.publish(living, {})
    page = text_of(owner.get(f"/{living}/deliveries"))
    assert "502 push" in page
    assert "no response" not in page


def test_a_long_header_is_truncated(office: Office) -> None:
    office.receiver.reply = lambda received: Reply(200, {"X-Long": "y" * 5000})
    hook, owner = listening(office), office.visitor()
    delivery = office.publish(hook, {})[0]
    page = owner.get(f"/{hook}/deliveries/{delivery['id']}").text
    assert "Show all 5000 characters" in page
    assert page.count("y" * 5000) == 1
    assert "y" * 300 + "…" in page


# --- delivery words --------------------------------------------------------------------------------------------------
# The wording of a delivery page: how much is shown, why it failed, and what happens next.


def test_a_truncated_payload_states_its_length(office: Office) -> None:
    hook, owner = listening(office), office.visitor()
    delivery = office.publish(hook, {"n": list(range(9000))})[0]
    page = text_of(owner.get(f"/{hook}/deliveries/{delivery['id']}"))
    shown = re.search(r"Showing the first (\d+) of (\d+) characters\.", page)
    assert shown is not None
    assert int(shown[1]) <= 32 * 1024 < int(shown[2])


@pytest.mark.parametrize(
    ("size", "says"),
    [
        (240_000, "The receiver sent 234 KiB; only the first 64 KiB are stored."),
        (64 * 1024, ""),
        (40_000, ""),
    ],
)
def test_only_a_truncated_response_is_reported_as_such(office: Office, size: int, says: str) -> None:
    office.receiver.reply = lambda received: Reply(200, {}, b"y" * size)
    hook, owner = listening(office), office.visitor()
    delivery = office.publish(hook, {})[0]
    page = text_of(owner.get(f"/{hook}/deliveries/{delivery['id']}"))
    kept = min(size, 64 * 1024)
    assert f"Showing the first 32768 of {kept} characters." in page
    assert (says in page) if says else ("kept." not in page)
    assert "Download stored body" in page
    file = owner.get(f"/{hook}/deliveries/{delivery['id']}/response.txt")
    assert file.content == b"y" * kept
    assert "sandbox" in file.headers["content-security-policy"]


def test_a_body_of_unknown_length_is_not_reported_as_truncated() -> None:
    whole = DeliveryResponse({}, "\ufffd" * 30_000)
    assert outcomes.kept(whole) == "", "30,000 bytes that are not UTF-8"
    unknown = DeliveryResponse({}, "y" * 64 * 1024)
    assert "may be incomplete" in outcomes.kept(unknown)


def test_a_redirect_is_reported_with_its_target(office: Office) -> None:
    office.receiver.reply = lambda received: Reply(301, {"Location": "https://elsewhere.example/<hooks>"})
    hook, owner = listening(office), office.visitor()
    delivery = office.publish(hook, {})[0]
    assert "301 push" in text_of(owner.get(f"/{hook}/deliveries"))
    assert "redirects aren’t followed" in text_of(owner.get(f"/{hook}/deliveries"))
    page = text_of(owner.get(f"/{hook}/deliveries/{delivery['id']}"))
    assert "Invalid HTTP Response: 301 (redirects aren’t followed)" in page
    assert "Redirect target: https://elsewhere.example/<hooks>" in page


def test_a_failure_is_described_precisely_and_once() -> None:
    assert outcomes.words("timed out") == "no response: timed out"
    limit = "no response within 10 s"
    assert outcomes.reason("timed out", limit_s=10.0) == limit
    refused = "failed to connect to host"
    assert "host not found" in outcomes.words(refused, url="https://example.com/x")
    for url in ("http://127.0.0.1:9/x", "http://[::1]:9/"):
        assert outcomes.words(refused, url=url) == "no response: connection refused"
    assert "exceed 64 KB" in outcomes.words("malformed response")
    assert outcomes.words("Invalid HTTP Response: 304") == "Invalid HTTP Response: 304"


def test_only_the_last_attempt_announces_a_retry(office: Office) -> None:
    office.receiver.reply = lambda received: Reply(500 if received.event == "push" else 200)
    hook, owner = listening(office, retries="3"), office.visitor()
    first = office.publish(hook, {})[0]
    assert "retry scheduled" in text_of(owner.get(f"/{hook}/deliveries/{first['id']}"))
    owner.send(f"/{hook}/deliveries/{first['id']}/redeliver")
    second = office.deliveries(hook, 3)[0]
    page = owner.get(f"/{hook}/deliveries").text
    old, new = (page.partition(f'id="delivery-{each["id"]}"')[2].partition("</tr>")[0] for each in (first, second))
    assert "retried" in old
    assert "retry scheduled" not in old
    assert "retry scheduled" in new
    page = text_of(owner.get(f"/{hook}/deliveries/{first['id']}"))
    assert "Status retried" in page


def test_a_delivery_has_links_to_its_webhook_and_neighbors(office: Office) -> None:
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
