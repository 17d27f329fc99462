"""The filters of a board are kept per user, on every device, until cleared."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness.server import Server
from tests.harness.world import add_user, must
from tests.web.browser import Browser, forms
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, send
from workhook.http.calls import Services
from workhook.identity.tables import accounts, projects
from workhook.identity.tokens.lookup import find_actor
from workhook.web import board
from workhook.work.board.filters import board_filters
from workhook.work.board.tasks import listing
from workhook.work.kernel.access import find_access


def titles(page: str) -> list[str]:
    """Return the titles of the cards on a board."""
    return re.findall(r"data-over[^>]*>([^<]*)</a>", page)


def filtered(studio: Studio, browser: Browser, **filters: str) -> str:
    """Send the filter form and return the address that it redirects to."""
    answer = send(browser, f"{studio.base}/board/filters", **filters)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


@pytest.fixture
def two(studio: Studio) -> Studio:
    """Return a studio whose board has two cards."""
    column = studio.add_column("To do")
    studio.add_task(column, "Logo", priority="high")
    studio.add_task(column, "Flyer")
    return studio


def test_a_search_reads_no_further_than_the_board_shows(
    studio: Studio, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    column = studio.add_column("Done")
    for number in range(8):
        studio.add_task(column, f"Logo {number}")
    pages, list_tasks = [], listing.list_tasks

    async def list_page(*given: Any, **more: Any) -> Any:
        pages.append(more["after"])
        return await list_tasks(*given, **more)

    async def shown(services: Services) -> list[str]:
        actor = must(await find_actor(services.database, studio.team.owner.token))
        access = await find_access(services.database, actor, studio.project.rpartition("/")[2])
        [found] = await board.read_board(services.database, access, {"q": "logo"})
        return [card.task.title for card in found.cards]

    monkeypatch.setattr(board, "CARDS_MAX", 3)
    monkeypatch.setattr(listing, "list_tasks", list_page)
    assert server.run(shown) == ["Logo 0", "Logo 1", "Logo 2"]
    assert pages == [None]


def test_a_returning_user_gets_their_last_filters(two: Studio, server: Server) -> None:
    assert filtered(two, two.owner, q="logo", priority="high", due="", other="x") == f"{two.base}?q=logo&priority=high"
    with Browser.of(server, two.team.owner.login) as telephone:
        shown = page_of(telephone, two.base)
        assert titles(shown) == ["Logo"]
        assert "1 of 2 cards" in shown
        assert 'value="logo"' in shown
        assert filtered(two, telephone, q="fly") == f"{two.base}?q=fly"
    assert titles(page_of(two.owner, two.base)) == ["Flyer"]


@pytest.mark.parametrize("sent", [{"q": "logo", "all": "1"}, {"q": "", "label": ""}])
def test_filters_are_cleared(two: Studio, sent: dict[str, str]) -> None:
    filtered(two, two.owner, q="logo")
    shown = two.owner.get(two.base)
    assert "Clear filters" in shown.text
    [form] = [each for each in forms(shown) if each.action == f"{two.base}/board/filters"]
    assert form.fields["q"] == "logo"
    assert filtered(two, two.owner, **sent) == two.base
    whole = page_of(two.owner, two.base)
    assert titles(whole) == ["Logo", "Flyer"]
    assert "Clear filters" not in whole


def test_filters_in_the_address_apply_once_and_are_not_kept(two: Studio) -> None:
    filtered(two, two.owner, q="logo")
    assert titles(page_of(two.owner, two.base, q="fly")) == ["Flyer"]
    assert titles(page_of(two.owner, two.base)) == ["Logo"]


def test_filters_belong_to_one_user_and_one_project(two: Studio) -> None:
    filtered(two, two.owner, q="logo")
    assert titles(page_of(two.member, two.base)) == ["Logo", "Flyer"]
    assert filtered(two, two.client, q="fly") == f"{two.base}?q=fly"
    assert titles(page_of(two.client, two.base)) == ["Flyer"]
    assert titles(page_of(two.owner, two.base)) == ["Logo"]


def test_hostile_or_long_filters_are_escaped(two: Studio) -> None:
    filtered(two, two.owner, q=HOSTILE + "x" * 5000)
    shown = page_of(two.owner, two.base)
    assert titles(shown) == []
    assert "0 of 2 cards" in shown
    assert HOSTILE not in shown


def test_a_user_without_access_cannot_save_filters(two: Studio, server: Server) -> None:
    with open_studio(server) as other:
        answer = send(other.owner, f"{two.base}/board/filters", q="logo")
        assert answer.status_code == 404


def test_filters_are_deleted_with_the_user_and_the_project(two: Studio, server: Server) -> None:
    async def kept(services: Services) -> list[int]:
        of_project = sa.select(projects.c.repository_id).where(projects.c.id == two.team.world.project_id)
        found = sa.select(board_filters.c.user_id).where(board_filters.c.repository_id.in_(of_project))
        return sorted(row["user_id"] for row in await services.database.fetch_all(found))

    async def leave(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(sa.delete(accounts).where(accounts.c.id == new.user.id))

    async def add(services: Services) -> str:
        return await add_user(services, two.team.world, member="member")

    token = server.run(add)
    new = server.run(lambda services: find_actor(services.database, token))
    assert new is not None
    with Browser.of(server, new.user.login) as browser:
        filtered(two, browser, q="logo")
    filtered(two, two.owner, q="logo")
    assert server.run(kept) == sorted([two.team.owner.id, new.user.id])
    server.run(leave)
    assert server.run(kept) == [two.team.owner.id]

    async def purge(services: Services) -> int:
        async with services.database.transaction() as tx:
            await tx.execute(sa.delete(projects).where(projects.c.id == two.team.world.project_id))
        rows = await services.database.fetch_all(
            sa.select(board_filters.c.user_id).where(board_filters.c.user_id == two.team.owner.id)
        )
        return len(rows)

    assert server.run(purge) == 0
