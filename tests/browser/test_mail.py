"""Pages of a server that sends e-mail: the notification settings, and the page for unsubscribing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from playwright.async_api import expect

from tests.browser.checks import accessible, fits
from tests.browser.people import Team
from tests.browser.visits import Visits
from tests.harness.databases import Databases
from tests.harness.server import Server, SharedServer
from tests.mail.server import MailServer
from workhook.http.calls import Services
from workhook.identity.mail.links import Subscription, unsubscribe_path


@pytest.fixture(scope="module")
def server(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    mail, folder = MailServer(), tmp_path_factory.mktemp("mailing")
    settings = {"smtp_url": mail.url(), "mail_from": "work@studio.example", **backend.new(folder)}
    server = SharedServer(folder, settings).start()
    yield server
    server.close()
    mail.close()


async def test_inbox_and_email_are_configured_separately(visit: Visits, team: Team) -> None:
    page = await visit("/settings/notifications", team.member, width=360)
    await fits(page)
    await accessible(page)
    box = page.get_by_label("Mentions: e-mail")
    await expect(box).to_be_checked()
    await box.uncheck()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Notification settings saved.")).to_be_visible()
    await expect(page.get_by_label("Mentions: e-mail")).not_to_be_checked()
    await expect(page.get_by_label("Mentions: inbox")).to_be_checked()


async def test_unsubscribing_needs_no_sign_in(visit: Visits, team: Team, server: Server) -> None:
    async def make(services: Services) -> str:
        return unsubscribe_path(services.vault, Subscription(team.member.id, "assignment"))

    page = await visit(server.run(make), width=360)
    await fits(page)
    await accessible(page)
    await page.get_by_role("button", name="Unsubscribe").click()
    await expect(page.get_by_role("heading", name="Unsubscribed")).to_be_visible()
    await accessible(page)


async def test_an_invitation_link_is_reported_as_emailed(visit: Visits, team: Team) -> None:
    page = await visit(f"/{team.world.organization}/people", team.owner, width=360)
    address = f"{uuid.uuid4().hex[:8]}@guests.example"
    await page.locator("#who").fill(address)
    await page.get_by_role("button", name="Invite by link").click()
    await expect(page.get_by_text(f"The link is e-mailed to {address}.")).to_be_visible()
    await fits(page)
    await accessible(page)
