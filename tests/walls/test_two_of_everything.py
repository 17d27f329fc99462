"""Nothing that is asked in one organization changes or shows anything of another whose people overlap with its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any

import httpx
import pytest

from tests.identity.asking import Request, is_work, key_of, nowhere_in_work, work_request
from tests.walls.crossing import Case, Names, cases, names_of, names_of_nothing, without_names
from tests.walls.dump import TABLES, Dump, changes
from tests.walls.owners import OWNERS, Find
from tests.walls.pages import BY, WRITES, Pages
from tests.walls.spares import Asked
from tests.walls.walk import ask, callers, in_turn, requests, said
from tests.walls.world import Walls
from tests.work.listener import Listener

# Who ends an app of their own ends it for all its customers: what it made, and what it was allowed. Who has read what
# they are told of has read it wherever it is from.
REACHES = {
    "POST /me/notifications/read": ("notifications",),
    "DELETE /orgs/{}/oauth-apps/{}/tokens": ("grants", "tokens", "hooks", "audit_log"),
    "DELETE /orgs/{}/oauth-apps/{}": ("hooks", "lanes"),
}


def test_of_every_table_it_is_known_whose_its_rows_are() -> None:
    assert set(OWNERS) == {table.name for table in TABLES}


def touched(walls: Walls, before: Dump, after: Dump) -> list[str]:
    """Of B's rows."""
    find = Find(after, before)
    found = []
    for change in changes(before, after):
        table, what, key, columns = change
        for row in (dump[table][key] for dump in (before, after) if key in dump[table]):
            if not walls.accounts.isdisjoint(OWNERS[table](row, find)):
                found.append(f"{what} {table} {key} {' '.join(columns)}")
                break
    return found


def _everything(walls: Walls) -> Iterator[tuple[str, list[str]]]:
    """Each operation, and what of B its answers tell."""
    with walls.server.client(None) as client:
        for operation in in_turn():
            told = []
            for asked in requests(walls, operation, callers(walls.site, operation)):
                answer = ask(client, asked)
                if shown := walls.hidden_in(said(answer), asked.by):
                    told.append(
                        f"tells {asked.by.name} of {sorted(shown)[:5]}: {answer.status_code} {answer.text[:300]}"
                    )
            yield key_of(operation), told


def _pages(walls: Walls, pages: Pages) -> Iterator[tuple[str, list[str]]]:
    for key, prepare in WRITES.items():
        answer = prepare(pages)()
        assert answer.status_code < 400, f"{key}: {answer.status_code} {answer.text[:300]}"
        shown = walls.hidden_in(said(answer), BY)
        yield key, [f"tells {BY.name} of {sorted(shown)}"] if shown else []


@contextmanager
def _nothing_reaches(walls: Walls) -> Iterator[None]:
    """Streams and receivers of B: the first that they hear of afterwards is what B does itself."""
    walls.deliver()
    heard, token, scenes = len(walls.receiver.requests), walls.beyond.world.token, (walls.open, walls.shut)
    with ExitStack() as stack:
        listeners = [
            stack.enter_context(Listener(walls.server.url, f"{scene.project_path}/stream", token)) for scene in scenes
        ]
        for each in listeners:
            each.opened()
        yield
        made = [scene.column() for scene in scenes]
        heard_first = [each.events(1)[0] for each in listeners]
        assert [each.data["payload"].get("column", {}).get("id") for each in heard_first] == made, heard_first
    walls.deliver()
    received = walls.receiver.requests[heard:]
    assert {each.payload().get("column", {}).get("id") for each in received} == set(made)
    # B's own: those of A's OAuth app went with the app (`REACHES`).
    assert {each.headers["x-service-hook-id"] for each in received} == {str(each) for each in walls.hooks[:3]}


@pytest.mark.whole
def test_every_operation(walls: Walls) -> None:
    pages = Pages(walls)
    try:
        with _nothing_reaches(walls):
            _require_nothing_of_everything(walls, pages)
    finally:
        pages.close()


def _require_nothing_of_everything(walls: Walls, pages: Pages) -> None:
    wrong: list[str] = []
    before = walls.reader.dump()
    for key, told in chain(_pages(walls, pages), _everything(walls)):
        after = walls.reader.dump()
        wrong += [f"{key}: {each}" for each in told]
        wrong += [
            f"{key}: {each}" for each in touched(walls, before, after) if each.split()[1] not in REACHES.get(key, ())
        ]
        before = after
    assert wrong == [], f"{len(wrong)}\n" + "\n".join(wrong)


def _refusals_told(found: list[str]) -> list[str]:
    """Whoever is refused in a place is in the audit log of that place, a moment later."""
    return [each for each in found if not each.startswith("added audit_log")]


def _answer(client: httpx.Client, walls: Walls, case: Case, names: Names) -> httpx.Response:
    return ask(client, Asked(case.ask(names), walls.caller(case.by)))


def _told(response: httpx.Response) -> Any:
    """The body, without what differs with every request."""
    try:
        body = response.json()
    except ValueError:
        return response.text
    if isinstance(body, dict):
        body.pop("request_id", None)
    return body


def _as_if_not_there(response: httpx.Response, names: Names) -> tuple[int, str]:
    """What was changed in A is new each time."""
    is_new = response.is_success and response.request.method != "GET"
    return response.status_code, "" if is_new else without_names(str(_told(response)), names)


@pytest.mark.whole
def test_what_names_something_of_another(walls: Walls) -> None:
    """It is answered as if that were not there, and changes nothing of it."""
    wrong: list[str] = []
    theirs, nothing = names_of(walls), names_of_nothing()
    with walls.server.client(None) as client:
        for case in cases(walls):
            before = walls.reader.dump()
            there, nowhere = (_answer(client, walls, case, names) for names in (theirs, nothing))
            title = f"{case.title} by {case.by}: {there.status_code}, {nowhere.status_code}"
            wrong += [f"{title}: {each}" for each in _refusals_told(touched(walls, before, walls.reader.dump()))]
            if _as_if_not_there(there, theirs) != _as_if_not_there(nowhere, nothing):
                wrong.append(f"{title}: {there.text[:400]} | {nowhere.text[:400]}")
            asked = str(case.ask(theirs))  # what was asked for may be said back
            shown = {each for each in walls.hidden_in(said(there), walls.caller(case.by)) if each not in asked}
            if shown:
                wrong.append(f"{title} tells of {sorted(shown)}: {there.text[:400]}")
    assert wrong == [], f"{len(wrong)}\n" + "\n".join(wrong)


def test_what_is_anothers_is_not_there(walls: Walls) -> None:
    """Every operation on B's own things, by an owner of A."""
    wrong: list[str] = []
    by, site = walls.caller("pure"), walls.site
    with walls.server.client(None) as client:
        for operation in (each for each in in_turn() if is_work(each) and "{" in each.path):
            asked = work_request(site, operation, walls.shut)
            before = walls.reader.dump()
            there, nowhere = (ask(client, Asked(each, by)) for each in (asked, nowhere_in_work(operation, asked)))
            wrong += [
                f"{key_of(operation)}: {each}" for each in _refusals_told(touched(walls, before, walls.reader.dump()))
            ]
            if (there.status_code, nowhere.status_code) != (404, 404) or _told(there) != _told(nowhere):
                wrong.append(f"{key_of(operation)}: {there.status_code} {there.text[:300]} | {nowhere.text[:300]}")
    assert wrong == [], f"{len(wrong)}\n" + "\n".join(wrong)


def test_a_person_of_another_is_put_nowhere(walls: Walls) -> None:
    """By the login, which is all that is known of them: they are not in the project, and their number is not told."""
    path, before = walls.site.scene.project_path, walls.reader.dump()
    with walls.server.client(None) as client:
        request = Request("POST", f"/api/v1{path}/members", {"json": {"username": walls.beyond.bea.login}})
        answer = ask(client, Asked(request, walls.caller("pure")))
    # Not the entries: what was refused to others before is told a moment later.
    assert _refusals_told(touched(walls, before, walls.reader.dump())) == [], answer.text
    assert walls.hidden_in(said(answer), walls.caller("pure")) <= {walls.beyond.bea.login}, answer.text


def test_a_timer_that_is_resumed_by_another(walls: Walls) -> None:
    """The owner of A resumes the timer of somebody who has one running in B's private project."""
    before = walls.reader.dump()
    answer = walls.site.scene.owner.call("POST", f"/timesheets/{walls.paused}/resume", json={})
    after = walls.reader.dump()
    assert answer.json()["code"] == "timer_elsewhere", answer.text
    assert _refusals_told(touched(walls, before, after)) == [], answer.text  # what was refused to others before
    told = [after["audit_log"][key] for key in after["audit_log"].keys() - before["audit_log"].keys()]
    assert not [each for each in told if each["actor_id"] == walls.site.cast.people["owner"].id], told
    assert walls.hidden_in(said(answer), walls.caller("owner")) == set()
