"""The tasks and invoices of all projects on `/tasks` and `/invoices`, without a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.harness.server import Server
from tests.web.browser import Browser
from tests.web.places_kit import join, leave
from tests.web.studio import Studio, open_studio, page_of, text_of

HOSTILE = '<b id="evil">\u202e"😀'


@dataclass
class Both:
    """Two organizations. The member of the first also belongs to the second."""

    server: Server
    first: Studio
    second: Studio

    @property
    def browser(self) -> Browser:
        return self.first.member


@pytest.fixture
def both(server: Server) -> Iterator[Both]:
    with ExitStack() as stack:
        first, second = (stack.enter_context(open_studio(server)) for _ in range(2))
        join(server, second.team.world, first.team.member, "member")
        second.call("PATCH", second.project, title="Elsewhere")
        doing = first.add_column("Doing")
        first.add_task(doing, "Shape")
        second.add_task(second.add_column("To do"), HOSTILE)
        yield Both(server, first, second)


def listed(page: str) -> list[str]:
    return re.findall(r'<a href="/[^"]*/(?:tasks|billing)/[^"]*">([^<]*)', page)


def test_tasks_of_all_projects_link_to_their_pages(both: Both) -> None:
    page = page_of(both.browser, "/tasks")
    assert "Elsewhere" in text_of(page)
    assert "<b id=" not in page
    assert len(listed(page)) == 2
    for path in re.findall(r'<a href="(/[^"]*/tasks/[^"]*)"', page):
        assert both.browser.get(path).status_code == 200
    assert listed(page_of(both.first.owner, "/tasks")) == ["Shape"]
    leave(both.server, both.second.team.world, both.first.team.member)
    assert listed(page_of(both.browser, "/tasks")) == ["Shape"]


def test_open_tasks_come_first_and_can_be_filtered(both: Both) -> None:
    first, member = both.first, both.first.team.member
    doing, done = first.add_column("Doing"), first.add_column("Done", stage="done")
    first.add_task(done, "Over")
    first.add_task(doing, "Soon", deadline="2026-12-01", assignees=[member.login])
    titles = listed(page_of(both.browser, "/tasks"))
    assert titles[0] == "Soon"
    assert "Over" not in titles
    assert listed(page_of(both.browser, "/tasks?finished=true")) == ["Over"]
    assert len(listed(page_of(both.browser, "/tasks?finished=all"))) == 4
    assert listed(page_of(both.browser, "/tasks?assignee=me")) == ["Soon"]
    assert listed(page_of(both.browser, f"/tasks?project_id={first.team.world.project_id}&sort=-title")) == [
        "Soon", "Shape",
    ]  # fmt: skip
    assert listed(page_of(both.browser, "/tasks?q=shap")) == ["Shape"]
    assert "No tasks match these filters." in text_of(page_of(both.browser, "/tasks?label=none"))
    assert both.browser.get("/tasks?sort=colour").status_code == 422


def test_archived_tasks_are_shown_only_on_request(both: Both) -> None:
    both.first.call("PATCH", both.first.project, archive=True)
    assert "Shape" not in listed(page_of(both.browser, "/tasks"))
    page = page_of(both.browser, f"/tasks?project_id={both.first.team.world.project_id}")
    assert listed(page) == ["Shape"]


def test_invoices_of_all_projects_are_listed_newest_first(both: Both) -> None:
    items = [{"description": "Work", "qty": 1, "unit_price": 10}]
    for studio in (both.first, both.second):
        body = {"bill_to": HOSTILE, "invoice_items": items}
        made = studio.call("POST", f"{studio.project}/invoices", **body)["invoice"]
        studio.call("POST", f"/invoices/{made['id']}/send")
        studio.call("POST", f"{studio.project}/invoices", bill_to="Draft of a client")
    page = page_of(both.browser, "/invoices")
    assert "<b id=" not in page
    assert text_of(page).count("Draft invoice") == 2
    ids = re.findall(r'<li id="(inv_[^"]*)"', page)
    assert len(ids) == 4
    assert ids == sorted(ids, reverse=True)
    sent = page_of(both.browser, "/invoices?status=sent")
    assert text_of(sent).count("Draft invoice") == 0
    assert len(re.findall(r'<li id="inv_', sent)) == 2
    assert len(re.findall(r'<li id="inv_', page_of(both.browser, "/invoices?q=draft"))) == 2
    assert "No invoices match these filters." in text_of(page_of(both.browser, "/invoices?q=zebra"))
    client = page_of(both.first.client, "/invoices")
    assert len(re.findall(r'<li id="inv_', client)) == 1
    assert "Draft" not in text_of(client)
    assert "No invoices match these filters." in text_of(page_of(both.browser, "/invoices?overdue=true"))


def test_the_menu_and_the_start_page_link_to_the_lists(both: Both) -> None:
    page = page_of(both.browser, "/")
    assert page.count('href="/tasks"') == 2
    assert 'href="/invoices"' in page


def test_the_lists_need_a_sign_in(server: Server) -> None:
    with Browser(server) as browser:
        assert browser.get("/tasks").headers["location"].startswith("/login")
