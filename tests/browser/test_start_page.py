"""The page that somebody sees first who is signed in."""

from __future__ import annotations

from playwright.async_api import expect

from tests.browser.people import Team
from tests.browser.visits import Visits


async def test_everybody_sees_their_own(visit: Visits, team: Team) -> None:
    for person in team.everybody.values():
        page = await visit("/", person)
        await expect(page.get_by_role("banner")).to_contain_text(person.login)
        await expect(page.get_by_role("link", name="Set a password")).to_be_visible()
