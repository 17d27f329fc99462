"""Webhooks and their deliveries in a browser."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest
from playwright.async_api import expect

from tests.browser.checks import accessible, fits, keyboard, picture
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits
from tests.harness.receiver import Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until
from workhook.http.calls import Services
from workhook.identity.apps.actions import create_app
from workhook.identity.apps.app_schemas import OauthAppCreate
from workhook.identity.policy import SCOPES
from workhook.identity.queries import find_account
from workhook.identity.tokens.issue import OAUTH, issue


class Hook:
    """A webhook of the team, and requests about it outside the browser."""

    def __init__(self, server: Server, team: Team, receiver: Receiver) -> None:
        self.base = f"/{team.world.full_name}/webhooks"
        self._path = team.world.repo_path
        with server.client(team.owner.token) as client:
            self._headers, self._url = dict(client.headers), server.url
        config = {"url": receiver.url, "content_type": "json", "secret": "s3cret", "retries": "0"}
        made = self.call("POST", f"{self._path}/hooks", {"config": config, "events": ["*"]}).json()
        self.id = int(made["id"])
        self.deliveries(1)

    @property
    def address(self) -> str:
        return f"{self.base}/{self.id}"

    def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        response = httpx.request(method, self._url + path, json=body, headers=self._headers, timeout=60)
        assert response.is_success, response.text
        return response

    def publish(self, **payload: Any) -> None:
        self.call("POST", f"{self._path}/events", {"event": "push", "payload": payload})

    def deliveries(self, count: int) -> list[dict[str, Any]]:
        path = f"{self._path}/hooks/{self.id}/deliveries"
        return until(lambda: found if len(found := self.call("GET", path).json()) >= count else [])


@pytest.fixture
async def hook(server: Server, team: Team, receiver: Receiver) -> Hook:
    return await asyncio.to_thread(Hook, server, team, receiver)


async def test_a_webhook_is_created_and_its_ping_arrives(visit: Visits, team: Team, receiver: Receiver) -> None:
    page = await visit(f"/{team.world.full_name}/webhooks", team.owner)
    await page.get_by_role("link", name="Create webhook").click()
    await page.get_by_label("Payload URL").fill(receiver.url)
    await page.get_by_label("Selected events").check()
    await page.get_by_role("checkbox", name="task ", exact=False).first.check()
    await page.locator("summary", has_text="Sample").first.click()
    await expect(page.locator("#payload-client")).to_contain_text('"action": "added"')
    await page.get_by_role("button", name="Create webhook").click()
    await expect(page.locator("#the-secret")).to_have_text(re.compile(r"^whsec_[A-Za-z0-9+/]{40}$"))
    await accessible(page)
    await page.get_by_role("link", name="View deliveries").click()
    await expect(page.get_by_role("link", name="ping")).to_be_visible()


async def test_new_deliveries_appear_automatically(visit: Visits, team: Team, hook: Hook) -> None:
    page = await visit(f"{hook.address}/deliveries", team.owner)
    rows = page.locator(".deliveries tbody tr")
    await expect(rows).to_have_count(1)
    text = page.get_by_label("Payload contains")
    await text.fill("is being typed")
    await asyncio.to_thread(hook.publish, number=1)
    await expect(rows).to_have_count(2)
    await expect(text).to_have_value("is being typed")


async def test_a_failed_delivery_is_inspected_and_redelivered(
    visit: Visits, team: Team, hook: Hook, receiver: Receiver
) -> None:
    receiver.reply = lambda received: Reply(500, {}, b'{"error": "<b>no</b>"}')
    await asyncio.to_thread(hook.publish, text="<script>alert(1)</script>\u202e")
    await asyncio.to_thread(hook.deliveries, 2)
    receiver.reply = lambda received: Reply()
    page = await visit(f"{hook.address}/deliveries?status=failure", team.owner)
    await page.get_by_role("link", name="push").click()
    await expect(page.locator("#payload")).to_contain_text("<script>alert(1)</script>\\u202e")
    await expect(page.locator("#body")).to_contain_text("<b>no</b>")
    await page.get_by_role("button", name="Redeliver").click()
    await expect(page.get_by_role("navigation", name="Attempts").get_by_role("link")).to_have_text(
        [re.compile("1: 500"), re.compile("2: 200")]
    )
    await expect(page.get_by_role("navigation", name="Attempts").locator("[aria-current]")).to_contain_text("2: 200")
    await page.get_by_role("button", name="Compare").click()
    await expect(page.get_by_role("heading", name="Compared with attempt 1")).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_all_failed_deliveries_are_redelivered(
    visit: Visits, team: Team, hook: Hook, receiver: Receiver, scripts: bool
) -> None:
    receiver.reply = lambda received: Reply(503)
    for number in range(3):
        await asyncio.to_thread(hook.publish, number=number)
    await asyncio.to_thread(hook.deliveries, 4)
    receiver.reply = lambda received: Reply()
    page = await visit(f"{hook.address}/deliveries", team.owner, scripts=scripts)
    await page.locator("summary", has_text="Redeliver failed deliveries").click()
    await page.get_by_role("button", name="Count deliveries").click()
    await expect(page.get_by_role("heading", name="3 events to redeliver")).to_be_visible()
    await page.get_by_role("button", name="Redeliver all").click()
    await expect(page.get_by_role("status").filter(has_text="events queued")).to_contain_text("3 events")
    await expect(page.get_by_text("All deliveries checked.")).to_be_visible()


async def test_errors_in_a_changed_webhook_are_shown_next_to_their_fields(
    visit: Visits, team: Team, hook: Hook
) -> None:
    visit.expect_trouble("status of 422")
    page = await visit(hook.address, team.owner)
    retries, limit = page.get_by_label("Retries"), page.get_by_label("Maximum deliveries per second")
    await retries.fill("99")
    await limit.fill("abc")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator("#retries-fault")).to_contain_text("Retries must be a whole number from 0 to 50")
    await expect(page.locator("#rate_limit-fault")).to_be_visible()
    await expect(page.get_by_text("Nothing was saved.")).to_be_attached()
    await expect(retries).to_be_focused()
    await expect(retries).to_have_value("99")
    await expect(limit).to_have_value("abc")
    await retries.fill("7")
    await limit.fill("")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Webhook saved.")).to_be_visible()
    await expect(page.locator("#retries-fault")).to_have_count(0)
    await retries.fill("6")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Webhook saved.")).to_be_visible()
    await expect(page.get_by_text("This webhook has changed")).to_have_count(0)


async def test_a_refused_new_webhook_focuses_the_invalid_field(visit: Visits, team: Team, hook: Hook) -> None:
    visit.expect_trouble("status of 422")
    page = await visit(f"{hook.base}/new", team.owner)
    await page.get_by_label("Payload URL").fill("https://example.com/hook")
    await page.get_by_text("Advanced").click()
    await page.get_by_label("Retries").fill("99")
    await page.get_by_label("Use my own secret").check()
    await page.get_by_role("textbox", name="Your secret").fill("typed")
    await page.get_by_role("button", name="Create webhook").click()
    await expect(page.get_by_label("Retries")).to_be_focused()
    await expect(page.locator("#secret-fault")).to_contain_text("Enter it again")
    await page.get_by_label("Retries").fill("9")
    await page.get_by_role("button", name="Create webhook").click()
    await expect(page.get_by_role("textbox", name="Your secret")).to_be_focused()
    await expect(page.locator("#secret-fault")).to_contain_text("Enter a secret")


async def test_a_refused_secret_is_scrolled_into_view(visit: Visits, team: Team, hook: Hook) -> None:
    visit.expect_trouble("status of 422")
    config = {"config": {"header_style": "standard", "secret": "whsec_" + "a" * 40}}
    await asyncio.to_thread(hook.call, "PATCH", f"/repos{hook.base.removesuffix('/webhooks')}/hooks/{hook.id}", config)
    page = await visit(hook.address, team.owner)
    await page.locator("#secret summary").click()
    await page.locator("#secret").get_by_label("Use my own secret").check()
    await page.locator("#secret").get_by_label("Your secret").fill("bad")
    await page.locator("#secret").get_by_role("button", name="Change secret").click()
    await expect(page.locator("#secret-fault")).to_be_in_viewport()


async def test_a_double_click_sends_once(visit: Visits, team: Team, hook: Hook) -> None:
    page = await visit(f"{hook.address}/deliveries", team.owner)
    await page.get_by_role("link", name="ping").click()
    await page.get_by_role("button", name="Redeliver").dblclick()
    await expect(page.get_by_role("navigation", name="Attempts").locator("[aria-current]")).to_contain_text("2: 200")
    await page.get_by_role("button", name="Redeliver").click()
    await expect(page.get_by_role("navigation", name="Attempts").locator("[aria-current]")).to_contain_text("3: 200")
    assert len(await asyncio.to_thread(hook.deliveries, 3)) == 3


async def test_webhooks_and_tokens_of_apps_are_deleted_after_confirmation(
    visit: Visits, server: Server, team: Team, hook: Hook, receiver: Receiver, width: int
) -> None:
    async def token_of_app(services: Services) -> str:
        async with services.database.transaction() as tx:
            owner = await find_account(tx, team.owner.login)
            assert owner is not None
            wanted = OauthAppCreate(name=f"Deploy bot {owner.id}", callback_urls=["https://example.com/"])
            app, _, _ = await create_app(tx, None, owner, wanted)
            return (await issue(tx, OAUTH, owner.id, scopes=SCOPES, app_id=app.id)).token

    def make() -> None:
        with server.client(server.run(token_of_app)) as app:
            body = {"name": "web", "events": ["*"], "config": {"url": f"{receiver.url}/exfil/with/a/long/path"}}
            assert app.post(f"{team.world.org_path}/hooks", json=body).is_success

    await asyncio.to_thread(make)
    page = await visit(f"/{team.world.organization}/-/webhooks", team.owner, width=width)
    await page.get_by_text("Delete…").click()
    await accessible(page)
    await fits(page)
    await page.get_by_role("button", name="Delete permanently").click()
    await expect(page.get_by_text("Webhook deleted.")).to_be_visible()
    await page.goto("/settings/tokens")
    await accessible(page)
    rows = page.locator("li[id^=token-]")
    count = await rows.count()
    await page.get_by_text("Revoke…").first.click()
    await fits(page)
    await page.get_by_role("button", name="Revoke token").first.dblclick()
    await expect(page.get_by_text("Token revoked.")).to_be_visible()
    await expect(rows).to_have_count(count - 1)


PLACES = {
    "": "webhooks",
    "/new": "webhooks-new",
    "/{id}": "webhook",
    "/{id}/verify": "webhook-verify",
    "/{id}/deliveries": "deliveries",
    "/{id}/deliveries/{delivery}": "delivery",
}


@pytest.mark.parametrize("path", PLACES)
async def test_the_pages_are_accessible(
    visit: Visits, team: Team, hook: Hook, receiver: Receiver, path: str, width: int, scheme: Scheme
) -> None:
    receiver.reply = lambda received: Reply(500, {}, b"no")
    await asyncio.to_thread(hook.publish, text="x" * 500)
    [failed, _] = await asyncio.to_thread(hook.deliveries, 2)
    place = path.format(id=hook.id, delivery=failed["id"])
    page = await visit(hook.base + place, team.owner, width=width, scheme=scheme, reduced_motion="reduce")
    if path in ("/new", "/{id}"):
        await page.get_by_label("Selected events").check()
        await page.locator("summary", has_text="Advanced").click()
    await accessible(page)
    await fits(page)
    await keyboard(page)
    await picture(page, PLACES[path])


async def test_only_admins_can_open_webhooks(visit: Visits, team: Team, hook: Hook) -> None:
    visit.expect_trouble("status of 404")
    client = await visit(hook.base, team.client)
    await expect(client.get_by_text("Page not found")).to_be_visible()
    visit.expect_trouble("status of 403")
    member = await visit(hook.base, team.member)
    await expect(member.get_by_text("Access denied")).to_be_visible()
    board = await member.context.new_page()
    await board.goto(f"/{team.world.full_name}")
    await expect(board.get_by_role("link", name="Webhooks")).to_have_count(0)
