"""Select lists offer every valid value, and nothing from other organizations."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.server import Server
from tests.harness.world import add_client, add_user
from tests.web.studio import Studio, open_studio, page_of
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.schemas import Account
from workhook.identity.tokens.lookup import find_actor

MANY = 210
"""More values than a select list shows, so that they become suggestions while typing."""


@pytest.fixture
def studios(server: Server) -> Iterator[tuple[Studio, Studio]]:
    """Provide two organizations. The member of the first also belongs to the second."""
    with open_studio(server) as first, open_studio(server) as second:
        server.run(lambda services: _join(services, second, first.team.member.login))
        yield first, second


async def _join(services: Services, studio: Studio, *logins: str, new: bool = False) -> list[str]:
    async with services.database.transaction() as tx:
        organization = await queries.find_account(tx, studio.team.world.organization)
        assert organization is not None
        for login in logins:
            if new:
                person: Account | None = await actions.create_account(tx, "user", login, name=None, email=None)
            else:
                person = await queries.find_account(tx, login)
            assert person is not None
            await actions.set_member(tx, organization, person, "member")
    return list(logins)


def _login(server: Server, token: str) -> str:
    async def find(services: Services) -> str:
        actor = await find_actor(services.database, token)
        assert actor is not None
        return actor.user.login

    found: str = server.run(find)
    return found


def offered(page: str, field: str) -> set[str]:
    """Return the values of a `<select>`, or the values suggested for a field."""
    pattern = rf'<select id="{field}"[^>]*>(.*?)</select>|<datalist id="{field}-people">(.*?)</datalist>'
    [found] = re.findall(pattern, page, re.DOTALL)
    values = re.findall(r'<option value="([^"]*)"', "".join(found))
    return {html.unescape(each) for each in values if each}


def mentioned(page: str) -> set[str]:
    return set(re.findall(r'data-login="([^"]*)"', page))


def boxes(page: str) -> set[str]:
    return set(re.findall(r'name="person-([^"]*)"', page))


def _places(studio: Studio, browser: Any, task: str) -> dict[str, set[str]]:
    """Return the people that each page of the project offers."""
    base = studio.base
    task_page, board = page_of(browser, f"{base}/tasks/{task}"), page_of(browser, base)
    found = {
        "board": offered(board, "filter-assignee"),
        "list": offered(page_of(browser, f"{base}/list"), "filter-assignee"),
        "calendar": offered(page_of(browser, f"{base}/calendar"), "filter-assignee"),
        "boxes": boxes(page_of(browser, f"{base}/list/{task}/people")),
        "tasks": offered(page_of(browser, "/tasks", project_id=studio.team.world.project_id), "filter-assignee"),
    }
    if 'id="assign"' in task_page:  # a client cannot change tasks of others
        found["task"] = offered(task_page, "assign")
    if 'id="selection-login"' in board:
        found["selection"] = offered(board, "selection-login")
        found["activity"] = offered(page_of(browser, f"{base}/activity"), "filter-actor")
    return found


def test_every_person_in_the_project_is_offered(server: Server, studios: tuple[Studio, Studio]) -> None:
    first, second = studios
    team = first.team
    task = first.add_task(first.add_column("To do"), "Draw")
    guest = _login(server, server.run(lambda services: add_client(services, team.world)))
    helper = _login(server, server.run(lambda services: add_user(services, team.world, role="read")))
    staff = {team.owner.login, team.member.login, helper}
    clients = {team.client.login, guest}
    others = {second.team.owner.login, second.team.member.login, second.team.client.login}

    def seen_by(browser: Any, login: str) -> dict[str, set[str]]:
        return {
            place: {login if each == "me" else each for each in people}
            for place, people in _places(first, browser, task).items()
        }

    for login, browser in ((team.owner.login, first.owner), (team.member.login, first.member)):
        for place, people in seen_by(browser, login).items():
            assert people == staff | clients, place
        assert mentioned(page_of(browser, f"{first.base}/tasks/{task}")) == (staff | clients) - {login}
    for place, people in seen_by(first.client, team.client.login).items():
        if place != "boxes":
            assert people == staff | {team.client.login}, place

    everywhere = offered(page_of(first.owner, "/tasks"), "filter-assignee")
    assert everywhere == (staff | clients | {"me"}) - {team.owner.login}
    of_both = offered(page_of(first.member, "/tasks"), "filter-assignee")
    assert of_both == (staff | clients | others | {"me"}) - {team.member.login}
    assert offered(page_of(first.client, "/tasks"), "filter-assignee") == staff | {"me"}
    report = offered(page_of(first.owner, f"{first.base}/time/report"), "report-user")
    assert report == staff


def test_more_people_than_a_list_shows_are_suggested(server: Server, studios: tuple[Studio, Studio]) -> None:
    first, _ = studios
    task = first.add_task(first.add_column("To do"), "Draw")
    names = [f"m{number:03}-{first.team.world.organization[-6:]}" for number in range(MANY)]
    many = set(server.run(lambda services: _join(services, first, *names, new=True)))
    assert len(many) == MANY
    for place, people in _places(first, first.owner, task).items():
        assert many <= people, place
    assert many <= offered(page_of(first.owner, "/tasks"), "filter-assignee")
    assert many <= offered(page_of(first.owner, f"{first.base}/time/report"), "report-user")
    assert many <= mentioned(page_of(first.owner, f"{first.base}/tasks/{task}"))
    last = max(many)
    for path in (f"{first.base}/list", "/tasks", f"{first.base}/calendar"):
        assert f'value="{last}"' in page_of(first.owner, path, assignee=last).split("<datalist", 1)[0]
    audit = page_of(first.owner, f"/{first.team.world.organization}/audit")
    assert all(f'<option value="{each}">' in audit for each in many)


def test_the_selected_value_stays_in_its_list(studios: tuple[Studio, Studio]) -> None:
    first, second = studios
    first.add_task(first.add_column("To do"), "Draw", labels=["Urgent"])
    gone = second.team.owner.login
    for path in (first.base, f"{first.base}/list", f"{first.base}/calendar", "/tasks"):
        page = page_of(first.owner, path, assignee=gone)
        assert f'<option value="{gone}" selected>' in page
        shouted = first.team.member.login.upper()
        assert f'<option value="{first.team.member.login}" selected>' in page_of(first.owner, path, assignee=shouted)
    assert '<option value="me" selected>' in page_of(first.owner, "/tasks", assignee=first.team.owner.login)
    page = page_of(first.owner, first.base, label="gone")
    assert "<option>Urgent</option>" in page
    assert "<option selected>gone</option>" in page


def test_every_label_in_the_project_is_offered(studios: tuple[Studio, Studio]) -> None:
    """Even if its task was last changed long ago."""
    first, _ = studios
    column = first.add_column("To do")
    first.add_task(column, "Old", labels=["rare"])
    create = [{"action": "create", "column_id": column, "title": f"t{number}"} for number in range(310)]
    for start in range(0, len(create), 50):
        first.call("POST", "/tasks/bulk", operations=create[start : start + 50])
    assert "<option>rare</option>" in page_of(first.owner, first.base)
