"""Audit entries of refusals without an error status: OAuth refuses with status 200, and pages show the form again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx

from tests.api.oauth_kit import CALLBACK, DEVICE_GRANT, OTHER_CALLBACK, TOKEN_PATH, Site
from tests.api.running.test_audit import by_request
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.web.browser import PASSWORD, Browser, add_person
from workhook.core import json
from workhook.storage import Row

SECRET = "f" * 40


def refusals(server: Server, answers: Sequence[httpx.Response]) -> list[Row]:
    """Wait until each response has its entry, which is written a moment later, and return the entries."""
    ids = [each.headers["x-request-id"] for each in answers]

    def read() -> list[list[Row]]:
        found = by_request(server)
        return [found[each] for each in ids] if all(each in found for each in ids) else []

    rows = until(read)
    assert all(len(each) == 1 for each in rows)
    return [each[0] for each in rows]


def describe(row: Row) -> tuple[Any, ...]:
    return row["action"], row["status"], json.decode(row["detail"])["reason"], row["account_id"], row["app_id"]


def ask(site: Site, path: str = TOKEN_PATH, **fields: str) -> httpx.Response:
    answer = site.http.post(path, data=fields, headers={"Accept": "application/json"})
    assert answer.status_code == 200
    assert "error" in answer.json()
    return answer


def test_a_wrong_client_secret_is_recorded(site: Site) -> None:
    """Identical refusals that arrive together share an entry, so each one is awaited."""
    tried = (
        (TOKEN_PATH, {"client_id": site.oauth.id, "client_secret": SECRET, "code": "x"}),
        (TOKEN_PATH, {"client_id": "Ov23li" + "0" * 14, "client_secret": SECRET, "code": "x"}),
        ("/login/device/code", {"client_id": "Ov23li" + "1" * 14}),
    )
    rows = [refusals(site.server, [ask(site, path, **fields)])[0] for path, fields in tried]
    wrong = (401, "incorrect_client_credentials", 0, None)
    expected = [("oauth_token.issue", *wrong), ("oauth_token.issue", *wrong), ("device_code.create", *wrong)]
    assert [describe(each) for each in rows] == expected
    assert all(each["address"] == "127.0.0.1" for each in rows)
    assert not any(SECRET in repr(dict(each)) for each in rows)


def test_attempts_of_an_app_are_visible_to_its_owners(site: Site) -> None:
    owner, code = site.world.organization, site.octo.code(site.oauth, redirect_uri=CALLBACK)
    for number, (fields, reason) in enumerate(
        (
            ({"code": "0" * 40}, "bad_verification_code"),
            ({"code": code, "redirect_uri": OTHER_CALLBACK}, "redirect_uri_mismatch"),
            ({"grant_type": "refresh_token", "refresh_token": "whr_" + "0" * 36}, "bad_refresh_token"),
            ({"grant_type": DEVICE_GRANT, "device_code": "0" * 40}, "incorrect_device_code"),
        )
    ):
        [row] = refusals(site.server, [ask(site, **site.oauth.credentials, **fields)])
        account_id = site.oauth.app.account_id
        assert describe(row) == ("oauth_token.issue", 401, reason, account_id, site.oauth.app.id), number
    with site.server.client(site.octo_token) as client:
        entries = client.get(f"/orgs/{owner}/audit-log", params={"phrase": "action:oauth_token.issue"}).json()
    assert {each["data"].get("reason") for each in entries} >= {"bad_refresh_token", "incorrect_device_code"}


def test_attempts_without_a_secret_belong_to_no_account(site: Site) -> None:
    answer = ask(site, client_id=site.oauth.id, grant_type=DEVICE_GRANT, device_code="0" * 40)
    [row] = refusals(site.server, [answer])
    assert describe(row) == ("oauth_token.issue", 401, "incorrect_device_code", 0, None)


def test_ordinary_polls_and_mistakes_are_not_recorded(site: Site) -> None:
    client = site.oauth
    begun = site.http.post("/login/device/code", data={"client_id": client.id}, headers={"Accept": "application/json"})
    poll = {"client_id": client.id, "grant_type": DEVICE_GRANT, "device_code": begun.json()["device_code"]}
    quiet = [ask(site, **poll), ask(site, **poll), ask(site), ask(site, **client.credentials, grant_type="password")]
    refusals(site.server, [ask(site, **client.credentials, code="1" * 40)])  # earlier entries are written by then
    assert not by_request(site.server).keys() & {each.headers["x-request-id"] for each in quiet}


def test_a_sign_in_during_a_pause_is_recorded(server: Server) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        for _ in range(5):
            browser.fill("/login", login=person.login, password="a wrong password")
        paused = browser.fill("/login", login=person.login, password=PASSWORD)
    assert paused.status_code == 429
    [row] = refusals(server, [paused])
    assert describe(row)[:4] == ("user.sign_in", 429, "rate_limited", 0)
