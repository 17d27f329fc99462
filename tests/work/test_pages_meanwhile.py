"""Pages that scan a limited number of rows.

Every match is on this page or a later one, even during concurrent deletions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.sql.expression import Executable

from tests.harness.world import must
from tests.work.scene import Scene
from tests.work.studio import Studio
from workhook.http.calls import Services
from workhook.http.lists import Key, Rows
from workhook.identity.queries import find_project
from workhook.identity.tokens.lookup import find_actor
from workhook.storage import Reader, Row
from workhook.storage.statements import Params
from workhook.work.board.tasks import listing
from workhook.work.board.tasks.schemas import Task
from workhook.work.files.actions import all_folders
from workhook.work.kernel import lists
from workhook.work.kernel.access import Access
from workhook.work.kernel.scopes import source_of_project
from workhook.work.time.timesheets.queries import TIMESHEETS

SCANNED_ROWS = 4


class InterruptedReader:
    """A reader that runs a function after the first read."""

    def __init__(self, reader: Reader, happens: Callable[[], object]) -> None:
        self._reader, self._happens = reader, happens
        self._is_first = True

    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        found = await self._reader.fetch_all(statement, params)
        if self._is_first:
            self._is_first = False
            await asyncio.to_thread(self._happens)
        return found

    async def fetch_one(self, statement: Executable, params: Params | None = None) -> Row | None:
        return await self._reader.fetch_one(statement, params)

    async def fetch_row(self, statement: Executable, params: Params | None = None) -> Row:
        return await self._reader.fetch_row(statement, params)

    async def fetch_slow(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        return await self._reader.fetch_slow(statement, params)


async def access(services: Services, studio: Studio) -> Access:
    actor = must(await find_actor(services.database, studio.world.token))
    repository = must(await find_project(services.database, studio.project_id, actor.user.id))
    return Access(actor, repository, "owner")


@pytest.mark.parametrize("what", ["tasks by id", "tasks by title, backwards", "timesheets"])
def test_no_match_is_skipped(studio: Studio, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(lists, "MAX_SCANNED_ROWS_IN_PROJECT", SCANNED_ROWS)
    scene = Scene(studio.owner, studio.project_id, studio.world.organization)
    column, kind = scene.column(), what.split()[0]
    make = partial(scene.timesheet, billable=False) if kind == "timesheets" else partial(scene.task, column)
    made = sorted((make() for _ in range(2 * SCANNED_ROWS)), reverse="backwards" in what)
    fits = {made[SCANNED_ROWS - 1], made[SCANNED_ROWS]}  # the last scanned row and the one after it
    for each in fits:
        studio.owner.patch(f"/{kind}/{each}", json={"billable": True} if kind == "timesheets" else {"labels": ["rare"]})

    async def page(services: Services) -> list[str]:
        source, found = source_of_project(await access(services, studio)), list[str]()
        after: Key | None = None
        happens: Callable[[], object] = lambda: studio.owner.delete(f"/{kind}/{made[0]}")  # noqa: E731
        for _ in range(len(made)):
            reader: Any = InterruptedReader(services.database, happens)
            listed: Any
            if kind == "timesheets":
                listed = await lists.read(reader, TIMESHEETS, source, {"billable": True}, after=after, limit=10)
            else:
                sort = "-title" if "title" in what else "id"
                listed = await listing.list_tasks(reader, source, {"label": "rare"}, sort=sort, after=after, limit=10)
            found += [each.id for each in listed]
            after, happens = listed.next_key, lambda: None
            if after is None:
                return found
        raise AssertionError("the pages do not end")

    assert sorted(studio.server.run(page)) == sorted(fits)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_a_whole_list_is_read_page_by_page(studio: Studio, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(lists, "WHOLE_LIST_MAX", size)
    titles = ["One", "two", "Three", "four"]
    for title in titles:
        studio.owner.post(f"{studio.project}/folders", json={"title": title})

    async def whole(services: Services) -> list[str]:
        return [each.title for each in await all_folders(services.database, await access(services, studio))]

    assert studio.server.run(whole) == sorted(titles, key=str.casefold)


@pytest.mark.parametrize("sort", ["id", "-title"])
@pytest.mark.parametrize("limit", [1, 2, 9])
def test_a_search_finds_matches_beyond_the_first_scan(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, sort: str, limit: int
) -> None:
    """The first tasks may fill a page, fail to fill it, or have too much text to scan."""
    monkeypatch.setattr(listing, "SEARCH_LIMITS", lists.FirstRows(sqlite_rows=3, postgresql_rows=3, characters=40))
    scene = Scene(studio.owner, studio.project_id, studio.world.organization)
    column = scene.column()
    red, even = list[str](), list[str]()
    for number, colour in enumerate(["red", "red", "blue", "blue", "blue", "red", "blue", "blue", "red", "red"]):
        described = {"description": "red " * 20} if number in (4, 8) else {}
        labels = ["even"] if number % 2 == 0 else []
        made = scene.task(column, title=f"{number} {colour}", labels=labels, **described)
        if described or colour == "red":
            red.append(made)
            even += [made] if labels else []

    async def pages(services: Services, filters: dict[str, object]) -> list[list[str]]:
        source, found = source_of_project(await access(services, studio)), list[list[str]]()
        after: Key | None = None
        while True:
            listed = await listing.list_tasks(services.database, source, filters, sort=sort, after=after, limit=limit)
            if not listed:
                return found
            found.append([task.id for task in listed])
            after = listed.keys[-1]

    for filters, wanted in (({"q": "red"}, red), ({"q": "red", "label": "even"}, even)):
        found = studio.server.run(lambda services, filters=filters: pages(services, filters))
        assert [each for page in found for each in page] == (sorted(wanted) if sort == "id" else wanted[::-1])
        assert all(len(page) == limit for page in found[:-1])


def test_texts_larger_than_a_page_hide_no_matches(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that is too long to scan is also too long for one response."""
    monkeypatch.setattr(listing, "SEARCH_LIMITS", lists.FirstRows(sqlite_rows=3, postgresql_rows=9, characters=40))
    monkeypatch.setattr(lists, "PAGE_CHARS_LITERAL", sa.literal_column("200"))
    monkeypatch.setattr(lists, "_statement", lists._statement.__wrapped__)  # disables the statement cache
    scene = Scene(studio.owner, studio.project_id, studio.world.organization)
    column = scene.column()
    made = sorted(scene.task(column, description="red " * 20) for _ in range(6))

    async def page(services: Services, after: Key | None) -> Rows[Task]:
        source = source_of_project(await access(services, studio))
        return await listing.list_tasks(services.database, source, {"q": "red"}, after=after, limit=9)

    found, after = list[str](), None
    while len(found) < len(made):
        listed = studio.server.run(lambda services, after=after: page(services, after))
        assert listed
        found += [task.id for task in listed]
        after = listed.keys[-1]
    assert found == made
