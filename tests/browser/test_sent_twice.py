"""Forms submitted twice in a browser: by a double click, and by going back and submitting again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.people import Team
from tests.browser.test_billing import ask
from tests.browser.visits import Visits
from tests.harness.server import Server


class Made(NamedTuple):
    """A form and what it creates. `path` is the page with the form `button`, which `fill` fills in. `listed` is the API
    path that returns the created objects under `name`."""

    path: str
    button: str
    listed: str
    name: str
    fill: Callable[[Page], Awaitable[Any]]


EMPTY_AND_CLOSED = """([selector, typed]) => {
  const form = document.querySelector(selector)
  const values = form && [...new FormData(form)].map(value => value.join("="))
  return form && !typed.some(value => values.includes(value.join("="))) && !form.closest("details")?.open
}"""


def _things(server: Server, team: Team) -> dict[str, Made]:
    project, here = f"/projects/{team.world.project_id}", f"/{team.world.full_name}"
    items = [{"description": "Design", "qty": 1, "unit_price": 100}]
    body = {"currency": "EUR", "tax": 20, "invoice_items": items}
    draft, invoice = (ask(server, team, f"{project}/invoices", **body)["invoice"]["id"] for _ in range(2))
    ask(server, team, f"/invoices/{invoice}/send")
    column = ask(server, team, f"{project}/columns", title="Doing")["column"]["id"]
    task = ask(server, team, f"/columns/{column}/tasks", title="Draw the page")["task"]["id"]

    async def nothing(page: Page) -> None:
        """Leave the form as it is."""

    async def line(page: Page) -> None:
        form = page.locator(f'form[action$="{draft}/lines"]')
        await form.locator('[name="description"]').fill("Paper")
        await form.locator('[name="unit_price"]').fill("3")

    return {
        "draft": Made(f"{here}/billing/new", "[action$='/billing/new']", f"{project}/invoices", "invoices", nothing),
        "line": Made(
            f"{here}/billing/{draft}", f"[action$='{draft}/lines']", f"/invoices/{draft}", "invoice_items", line
        ),
        "payment": Made(
            f"{here}/billing/{invoice}", "[action$='/payments']", f"/invoices/{invoice}/payments", "payments",
            lambda page: page.locator("[action$='/payments'] [name=amount]").fill("10"),
        ),
        "credits": Made(
            f"{here}/billing/credits", "form[action$='/grant']", f"{project}/task_credits", "task_credits",
            lambda page: page.locator("form[action$='/grant'] [name=amount]").fill("3"),
        ),
        "comment": Made(
            f"{here}/tasks/{task}", "#form-comment", f"/tasks/{task}/task_comments", "task_comments",
            lambda page: page.locator("#form-comment textarea").fill("Well done"),
        ),
        "task": Made(
            f"{here}/tasks/{task}", "#form-subtask", f"{project}/tasks", "tasks",
            lambda page: page.locator("#form-subtask [name=title]").fill("A part"),
        ),
    }  # fmt: skip


def count(server: Server, team: Team, made: Made) -> int:
    with server.client(team.owner.token) as api:
        found = api.get(f"/api/v1{made.listed}").json()
        return len(found["invoice"][made.name] if made.name == "invoice_items" else found[made.name])


async def opened(page: Page, made: Made) -> Locator:
    form = page.locator(made.button).first
    await form.evaluate(
        "form => { for (let e = form.closest('details'); e; e = e.parentElement.closest('details')) e.open = true }"
    )
    return form


@pytest.mark.parametrize("name", ["draft", "line", "payment", "credits", "comment", "task"])
async def test_a_form_submitted_twice_creates_one_object(visit: Visits, server: Server, team: Team, name: str) -> None:
    made = _things(server, team)[name]
    before = count(server, team, made)
    page = await visit(made.path, team.owner)
    form = await opened(page, made)
    await made.fill(page)
    fields = await form.evaluate("form => [form.action, [...new FormData(form)]]")
    button = form.locator("button:not([formaction])").first
    async with page.expect_response(lambda answer: answer.request.method == "POST"):
        await button.dblclick()
    await page.wait_for_load_state("networkidle")
    assert count(server, team, made) == before + 1
    again = """async ([action, fields]) => (await fetch(action, {
        method: "POST", body: new URLSearchParams(fields), headers: { Accept: "text/vnd.turbo-stream.html, text/html" },
    })).status"""
    assert await page.evaluate(again, fields) == 200  # like a browser that retries
    assert count(server, team, made) == before + 1


async def test_a_form_is_submitted_again_after_going_back(visit: Visits, server: Server, team: Team) -> None:
    made = _things(server, team)["draft"]
    before = count(server, team, made)
    page = await visit(made.path, team.owner)
    for _ in range(2):
        await page.locator(f"{made.button} button:not([formaction])").first.click()
        await expect(page.get_by_role("main")).to_contain_text("Line items")
        first = page.url
        await page.go_back()
        await page.wait_for_url(f"**{made.path}")
        assert count(server, team, made) == before + 1, first


@pytest.mark.parametrize("name", ["line", "payment", "credits", "comment"])
async def test_a_form_is_empty_after_success_and_after_going_back(
    visit: Visits, server: Server, team: Team, name: str
) -> None:
    made = _things(server, team)[name]
    before = count(server, team, made)
    page = await visit("/inbox", team.owner)
    await page.goto(page.url.removesuffix("/inbox") + made.path)
    form = await opened(page, made)
    values = "form => [...new FormData(form)].filter(([name, value]) => name !== 'csrf' && value !== '')"
    empty = await form.evaluate(values)
    await made.fill(page)
    typed = [each for each in await form.evaluate(values) if each not in empty]
    assert typed
    async with page.expect_response(lambda answer: answer.request.method == "POST"):
        await form.locator("button:not([formaction])").first.click()
    await page.wait_for_function(EMPTY_AND_CLOSED, arg=[made.button, typed])
    await page.wait_for_load_state("networkidle")
    await page.go_back()
    await page.wait_for_url("**/inbox")
    await page.go_forward()
    await page.wait_for_url(f"**{made.path}")
    await page.wait_for_function(EMPTY_AND_CLOSED, arg=[made.button, typed])
    assert count(server, team, made) == before + 1


async def test_the_same_text_can_be_added_again_on_purpose(visit: Visits, server: Server, team: Team) -> None:
    made = _things(server, team)["task"]
    before = count(server, team, made)
    page = await visit(made.path, team.owner)
    for number in (1, 2, 3):
        await made.fill(page)
        async with page.expect_response(lambda answer: answer.request.method == "POST"):
            await page.locator(made.button).get_by_role("button").first.click()
        await expect(page.locator(f"{made.button} [name=title]")).to_have_value("")
        assert count(server, team, made) == before + number
