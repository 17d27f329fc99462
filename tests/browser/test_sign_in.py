"""Signing in with a browser, and the help for users who cannot."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.browser.checks import accessible, fits, keyboard, picture
from tests.browser.visits import Scheme, Visits
from tests.harness.server import Server
from tests.web.browser import PASSWORD, Person, add_link, add_person


async def fill_in(page: Page, person: Person, password: str = PASSWORD) -> None:
    await page.get_by_label("Login or e-mail address").fill(person.login)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in").click()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_a_password_signs_in_and_a_button_signs_out(visit: Visits, server: Server, scripts: bool) -> None:
    person = add_person(server)
    page = await visit("/", scripts=scripts)
    await expect(page).to_have_url(f"{server.url}/login")
    await fill_in(page, person)
    await expect(page).to_have_url(f"{server.url}/")
    await expect(page.get_by_role("banner")).to_contain_text(person.login)
    await page.locator("header details.menu > summary").click()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page).to_have_url(f"{server.url}/login")
    await page.goto("/settings/password")
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_signing_in_returns_to_the_requested_page(visit: Visits, server: Server) -> None:
    page = await visit("/login/device")
    await fill_in(page, add_person(server))
    await expect(page).to_have_url(f"{server.url}/login/device")
    await expect(page.get_by_label("Code shown on your device")).to_be_visible()


async def test_a_wrong_password_is_reported_and_the_field_is_focused(visit: Visits, server: Server) -> None:
    visit.expect_trouble("status of 422")
    person = add_person(server)
    page = await visit("/login")
    await fill_in(page, person, "not the right one")
    await expect(page.get_by_role("alert")).to_contain_text("Wrong login or password.")
    await expect(page.get_by_label("Login or e-mail address")).to_have_value(person.login)
    await expect(page.get_by_label("Password")).to_be_focused()
    await accessible(page)
    await picture(page, "sign-in-wrong")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_a_link_signs_in(visit: Visits, server: Server, scripts: bool) -> None:
    person = add_person(server, password=None)
    page = await visit(add_link(server, person), scripts=scripts)
    await expect(page.get_by_role("heading", name=f"Sign in as {person.login}")).to_be_visible()
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(f"{server.url}/")
    await expect(page.get_by_role("banner")).to_contain_text(person.login)


async def test_signing_in_works_by_keyboard(visit: Visits, server: Server) -> None:
    person = add_person(server)
    page = await visit("/login")
    login = page.get_by_label("Login or e-mail address")
    while not await login.evaluate("each => each === document.activeElement"):
        await page.keyboard.press("Tab")
    await page.keyboard.type(person.login)
    await page.keyboard.press("Tab")
    await page.keyboard.type(PASSWORD)
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{server.url}/")


async def test_the_page_is_accessible(visit: Visits, width: int, scheme: Scheme) -> None:
    page = await visit("/login", width=width, scheme=scheme)
    await accessible(page)
    await fits(page)
    order = await keyboard(page)
    names = [
        each for each in ("Skip to", 'id="login"', 'id="password"', "<button") if any(each in stop for stop in order)
    ]
    assert names == ["Skip to", 'id="login"', 'id="password"', "<button"], order
    await picture(page, "sign-in")
