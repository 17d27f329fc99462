"""The device flow (RFC 8628): a device requests access, and a user decides elsewhere."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qsl

import httpx
import sqlalchemy as sa

from tests.api.oauth_kit import DEVICE_GRANT, Browser, Client, Site, form_of
from tests.web.pauses import lengthen_pauses
from workhook.core.clock import DAY_MS, now_ms
from workhook.http.calls import Services
from workhook.identity.oauth.codes import HEARD_OF_MS, WAITING_MAX
from workhook.identity.tables import device_codes
from workhook.identity.tokens.issue import digest_of
from workhook.storage.metadata import insert_into


def _begin(site: Site, client: Client, **fields: str) -> dict[str, Any]:
    given = {"client_id": client.id, **fields}
    response = site.http.post("/login/device/code", data=given, headers={"Accept": "application/json"})
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    answer: dict[str, Any] = response.json()
    return answer


def _poll(site: Site, client: Client, begun: dict[str, Any]) -> dict[str, Any]:
    return site.token(client, client_secret=None, grant_type=DEVICE_GRANT, device_code=begun["device_code"])


def _enter(browser: Browser, text: str) -> httpx.Response:
    return browser.submit(browser.http.get("/login/device"), user_code=text)


def _decide(browser: Browser, begun: dict[str, Any], decision: str = "approve") -> httpx.Response:
    return browser.submit(_enter(browser, begun["user_code"]), decision=decision)


def _change(site: Site, begun: dict[str, Any], **values: Any) -> None:
    """Change the row of the device code, as if time had passed."""

    bound: dict[str, Any] = {name: sa.bindparam(f"new_{name}", type_=sa.BigInteger()) for name in values}
    statement = sa.update(device_codes).where(device_codes.c.digest == sa.bindparam("of")).values(bound)
    params = {"of": digest_of(begun["device_code"]), **{f"new_{name}": value for name, value in values.items()}}

    async def change(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(statement, params)

    site.server.run(change)


def _polled_at(site: Site, begun: dict[str, Any]) -> int:
    statement = sa.select(device_codes.c.polled_at).where(device_codes.c.digest == sa.bindparam("of"))

    async def read(services: Services) -> int:
        row = await services.database.fetch_one(statement, {"of": digest_of(begun["device_code"])})
        assert row is not None
        return int(row["polled_at"])

    found: int = site.server.run(read)
    return found


def test_a_device_gets_a_token_after_the_user_approves(site: Site) -> None:
    begun = _begin(site, site.oauth, scope="work,nonsense")
    assert begun.keys() == {"device_code", "user_code", "verification_uri", "expires_in", "interval"}
    assert (begun["expires_in"], begun["interval"]) == (900, 5)
    assert re.fullmatch("[0-9a-f]{40}", begun["device_code"])
    assert re.fullmatch("[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}", begun["user_code"])
    assert begun["verification_uri"] == f"{site.server.url}/login/device"

    before = now_ms()
    assert _poll(site, site.oauth, begun)["error"] == "authorization_pending"
    assert before <= _polled_at(site, begun) <= now_ms()
    _change(site, begun, polled_at=now_ms() + DAY_MS)  # polled just now, however slow the machine is
    slower = _poll(site, site.oauth, begun)
    assert (slower["error"], slower["interval"]) == ("slow_down", 10)
    assert _polled_at(site, begun) <= now_ms()
    _change(site, begun, polled_at=now_ms() + DAY_MS)
    assert _poll(site, site.oauth, begun)["interval"] == 15
    _change(site, begun, polled_at=0)
    assert _poll(site, site.oauth, begun)["error"] == "authorization_pending"

    page = _enter(site.octo, begun["user_code"].lower().replace("-", " "))
    for told in (
        site.oauth.app.name,
        site.world.organization,
        site.octo.user.login,
        begun["user_code"],
        "time entries",
    ):
        assert told in page.text
    done = site.octo.submit(page, decision="approve")
    assert "Device connected" in done.text

    token = _poll(site, site.oauth, begun)
    assert (token["scope"], token["token_type"]) == ("work", "bearer")
    assert site.user_of(token["access_token"]) == site.octo.user.login
    assert _poll(site, site.oauth, begun)["error"] == "incorrect_device_code"
    assert _enter(site.octo, begun["user_code"]).status_code == 422
    assert site.octo.authorize(site.oauth, scope="work").status_code == 302  # it is the same grant


def test_a_denied_device_gets_no_token(site: Site) -> None:
    begun = _begin(site, site.oauth, scope="repo")
    late = _enter(site.ada, begun["user_code"])
    assert "Request denied" in _decide(site.octo, begun, "deny").text
    assert site.ada.submit(late, decision="approve").status_code == 422  # it was already decided
    assert _poll(site, site.oauth, begun)["error"] == "access_denied"
    assert _poll(site, site.oauth, begun)["error"] == "incorrect_device_code"
    assert site.ada.authorize(site.oauth, scope="repo").status_code == 200


def _set_last_polled(site: Site, ago_ms: int) -> None:
    """Set the time of the last poll of the app's device codes to `ago_ms` ago."""

    async def change(services: Services) -> None:
        of_the_app = device_codes.c.app_id == site.app.app.id
        statement = (
            sa.update(device_codes).where(of_the_app).values(polled_at=sa.bindparam("at", type_=sa.BigInteger()))
        )
        async with services.database.transaction() as tx:
            await tx.execute(statement, {"at": now_ms() - ago_ms})

    site.server.run(change)


def test_the_number_of_pending_codes_per_app_is_limited(site: Site) -> None:
    """Codes of other apps, decided and expired codes, and codes whose device has not polled for a minute do not count.

    Therefore a caller who only requests codes cannot keep others from getting them.
    """
    now = now_ms()
    common = {"interval_s": 5, "scopes": "", "created_at": 1, "expires_at": now + DAY_MS, "polled_at": now + DAY_MS}

    async def fill(services: Services) -> None:
        rows = [
            {**common, "app_id": site.app.app.id, "digest": bytes([n % 256, n // 256]), "user_code": f"N{n}"}
            for n in range(WAITING_MAX + 2)
        ]
        waiting, rest = rows[:-3], rows[-3:]
        async with services.database.transaction() as tx:
            await tx.execute_many(insert_into(device_codes, *rows[0]), waiting)
            rest = [{**rest[0], "app_id": site.oauth.app.id}, {**rest[1], "expires_at": now}, rest[2]]
            others = [{**each, "decision": None if number < 2 else "denied"} for number, each in enumerate(rest)]
            await tx.execute_many(insert_into(device_codes, *others[0]), others)

    site.server.run(fill)
    last = _begin(site, site.app)
    assert _poll(site, site.app, last)["error"] == "authorization_pending"
    refused = _begin(site, site.app)
    assert (refused["error"], refused["interval"]) == ("slow_down", 60)
    assert refused.keys() == {"error", "error_description", "error_uri", "interval"}
    assert "device_code" in _begin(site, site.oauth)
    _decide(site.octo, last)
    assert "device_code" in _begin(site, site.app)
    assert _poll(site, site.app, last)["access_token"]
    assert "device_code" not in _begin(site, site.app)
    _set_last_polled(site, HEARD_OF_MS)
    assert "device_code" in _begin(site, site.app)

    async def forget(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(sa.delete(device_codes).where(device_codes.c.user_code.startswith("N", autoescape=True)))

    site.server.run(forget)


def test_device_codes_expire(site: Site) -> None:
    begun = _begin(site, site.oauth)
    page = _enter(site.octo, begun["user_code"])
    _change(site, begun, expires_at=1)
    assert _poll(site, site.oauth, begun)["error"] == "expired_token"
    assert site.octo.submit(page, decision="approve").status_code == 422
    assert _poll(site, site.oauth, begun)["error"] == "expired_token"


def test_a_device_code_is_bound_to_its_app(site: Site) -> None:
    begun = _begin(site, site.oauth)
    _decide(site.octo, begun)
    assert _poll(site, site.rival, begun)["error"] == "device_flow_disabled"
    assert _poll(site, site.app, begun)["error"] == "incorrect_device_code"
    for wrong in ("", "0" * 40, begun["user_code"]):
        assert _poll(site, site.oauth, {"device_code": wrong})["error"] == "incorrect_device_code"
    fields = {"grant_type": DEVICE_GRANT, "device_code": begun["device_code"]}
    # A wrong secret is refused although none is required.
    site.refused(site.oauth, "incorrect_client_credentials", client_secret="wrong", **fields)
    assert _poll(site, site.oauth, begun)["access_token"]

    assert _begin(site, site.rival)["error"] == "device_flow_disabled"
    nobody = site.http.post("/login/device/code", data={"client_id": "nobody"})
    assert dict(parse_qsl(nobody.text))["error"] == "incorrect_client_credentials"


def test_concurrent_polls_issue_one_token(site: Site) -> None:
    begun = _begin(site, site.oauth)
    _decide(site.octo, begun)
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: _poll(site, site.oauth, begun), range(6)))
    [token] = [each["access_token"] for each in answers if "access_token" in each]
    assert site.user_of(token) == site.octo.user.login


def test_a_device_of_an_app_can_renew_without_a_secret(site: Site) -> None:
    begun = _begin(site, site.app)
    assert "Only in organizations that have installed the app" in _enter(site.octo, begun["user_code"]).text
    _decide(site.octo, begun)
    first = _poll(site, site.app, begun)
    renewed = site.token(site.app, client_secret=None, grant_type="refresh_token", refresh_token=first["refresh_token"])
    assert site.user_of(first["access_token"]) is None
    assert site.user_of(renewed["access_token"]) == site.octo.user.login


def test_only_the_users_own_form_can_approve(site: Site) -> None:
    begun = _begin(site, site.oauth)
    assert site.http.get("/login/device").headers["location"].startswith("/login?return_to=%2Flogin%2Fdevice")
    page = _enter(site.octo, begun["user_code"])
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    action, fields = form_of(page)
    approving = {**fields, "decision": "approve"}
    csrf = form_of(site.ada.http.get("/login/device"))[1]["csrf"]
    for browser, wrong in ((site.octo, ""), (site.octo, csrf), (site.ada, fields["csrf"])):
        assert browser.http.post(action, data={**approving, "csrf": wrong}).status_code == 403
    assert site.http.post(action, data=approving).status_code == 403
    # Another user of the same browser must confirm first.
    assert "wants to access your account" in site.ada.http.post(action, data={**approving, "csrf": csrf}).text
    # The same applies to a user who was shown another device.
    other = _begin(site, site.oauth, scope="repo")
    assert other["user_code"] in site.octo.submit(page, decision="approve", user_code=other["user_code"]).text
    for each in (begun, other):
        assert _poll(site, site.oauth, each)["error"] == "authorization_pending"


def test_guessing_codes_is_throttled(site: Site) -> None:
    """RFC 8628 5.1. The throttle is per session; an address is throttled after more attempts."""
    guesser = site.new_browser(site.ada.user)
    begun = _begin(site, site.oauth)
    assert [_enter(guesser, "BCDF-GHJK").status_code for _ in range(5)] == [422] * 5
    site.server.run(lengthen_pauses)
    assert _enter(guesser, "BCDF-GHJK").status_code == 429
    refused = _enter(guesser, begun["user_code"])
    assert (refused.status_code, site.oauth.app.name in refused.text) == (429, False)
    assert int(refused.headers["retry-after"]) >= 1
    assert _enter(site.octo, begun["user_code"]).status_code == 200
