"""No request in one organization changes or reveals anything of another whose people overlap with its own."""

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

# Ending an app ends it for all of its customers, including its webhooks and consents. Marking all notifications as read
# includes those from other organizations.
REACHES = {
    "POST /me/notifications/read": ("notifications",),
    "DELETE /orgs/{}/oauth-apps/{}/tokens": ("grants", "tokens", "hooks", "audit_log"),
    "DELETE /orgs/{}/oauth-apps/{}": ("hooks", "lanes"),
}


def test_every_table_declares_who_owns_its_rows() -> None:
    assert set(OWNERS) == {table.name for table in TABLES}


def touched(walls: Walls, before: Dump, after: Dump) -> list[str]:
    """Return the changes of B's rows."""
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
    """Yield each operation, and everything its answers reveal about B."""
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
def _receives_nothing(walls: Walls) -> Iterator[None]:
    """Check that no event reached B: the next one on its streams and receivers is one that B causes itself."""
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
    # Only B's own webhooks: those of A's OAuth app were deleted with the app (see `REACHES`).
    assert {each.headers["x-service-hook-id"] for each in received} == {str(each) for each in walls.hooks[:3]}


@pytest.mark.whole
def test_no_operation_changes_or_reveals_anything_of_another_organization(walls: Walls) -> None:
    pages = Pages(walls)
    try:
        with _receives_nothing(walls):
            _check_every_operation(walls, pages)
    finally:
        pages.close()


def _check_every_operation(walls: Walls, pages: Pages) -> None:
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


def _without_refusals(found: list[str]) -> list[str]:
    """Ignore audit log entries: a refused caller is recorded, with a delay, in the audit log of the target."""
    return [each for each in found if not each.startswith("added audit_log")]


def _answer(client: httpx.Client, walls: Walls, case: Case, names: Names) -> httpx.Response:
    return ask(client, Asked(case.ask(names), walls.caller(case.by)))


def _body_of(response: httpx.Response) -> Any:
    """Return the body without values that differ per request."""
    try:
        body = response.json()
    except ValueError:
        return response.text
    if isinstance(body, dict):
        body.pop("request_id", None)
    return body


def _comparable(response: httpx.Response, names: Names) -> tuple[int, str]:
    """Return a comparable answer. Successful writes in A differ each time, so only their status counts."""
    is_new = response.is_success and response.request.method != "GET"
    return response.status_code, "" if is_new else without_names(str(_body_of(response)), names)


@pytest.mark.whole
def test_requests_that_name_foreign_objects_are_answered_as_if_those_did_not_exist(walls: Walls) -> None:
    """They also change nothing in B."""
    wrong: list[str] = []
    theirs, nothing = names_of(walls), names_of_nothing()
    with walls.server.client(None) as client:
        for case in cases(walls):
            before = walls.reader.dump()
            there, nowhere = (_answer(client, walls, case, names) for names in (theirs, nothing))
            title = f"{case.title} by {case.by}: {there.status_code}, {nowhere.status_code}"
            wrong += [f"{title}: {each}" for each in _without_refusals(touched(walls, before, walls.reader.dump()))]
            if _comparable(there, theirs) != _comparable(nowhere, nothing):
                wrong.append(f"{title}: {there.text[:400]} | {nowhere.text[:400]}")
            asked = str(case.ask(theirs))  # an answer may echo what was requested
            shown = {each for each in walls.hidden_in(said(there), walls.caller(case.by)) if each not in asked}
            if shown:
                wrong.append(f"{title} tells of {sorted(shown)}: {there.text[:400]}")
    assert wrong == [], f"{len(wrong)}\n" + "\n".join(wrong)


def test_objects_of_another_organization_do_not_exist_for_an_owner(walls: Walls) -> None:
    """Try every operation on objects of B, as an owner of A."""
    wrong: list[str] = []
    by, site = walls.caller("pure"), walls.site
    with walls.server.client(None) as client:
        for operation in (each for each in in_turn() if is_work(each) and "{" in each.path):
            asked = work_request(site, operation, walls.shut)
            before = walls.reader.dump()
            there, nowhere = (ask(client, Asked(each, by)) for each in (asked, nowhere_in_work(operation, asked)))
            wrong += [
                f"{key_of(operation)}: {each}"
                for each in _without_refusals(touched(walls, before, walls.reader.dump()))
            ]
            if (there.status_code, nowhere.status_code) != (404, 404) or _body_of(there) != _body_of(nowhere):
                wrong.append(f"{key_of(operation)}: {there.status_code} {there.text[:300]} | {nowhere.text[:300]}")
    assert wrong == [], f"{len(wrong)}\n" + "\n".join(wrong)


def test_a_user_of_another_organization_cannot_be_added_directly(walls: Walls) -> None:
    """Only the login is known. The user is not added to the project, and their number is not revealed."""
    path, before = walls.site.scene.project_path, walls.reader.dump()
    with walls.server.client(None) as client:
        request = Request("POST", f"/api/v1{path}/members", {"json": {"username": walls.beyond.bea.login}})
        answer = ask(client, Asked(request, walls.caller("pure")))
    # Without the audit log, where earlier refusals of other callers may appear with a delay.
    assert _without_refusals(touched(walls, before, walls.reader.dump())) == [], answer.text
    assert walls.hidden_in(said(answer), walls.caller("pure")) <= {walls.beyond.bea.login}, answer.text


def test_resuming_a_timer_of_a_user_with_a_timer_elsewhere_is_refused_and_reveals_nothing(walls: Walls) -> None:
    """The owner of A resumes the timer of a user whose timer runs in B's private project."""
    before = walls.reader.dump()
    answer = walls.site.scene.owner.call("POST", f"/timesheets/{walls.paused}/resume", json={})
    after = walls.reader.dump()
    assert answer.json()["code"] == "timer_elsewhere", answer.text
    assert _without_refusals(touched(walls, before, after)) == [], answer.text  # earlier refusals of other callers
    told = [after["audit_log"][key] for key in after["audit_log"].keys() - before["audit_log"].keys()]
    assert not [each for each in told if each["actor_id"] == walls.site.cast.people["owner"].id], told
    assert walls.hidden_in(said(answer), walls.caller("owner")) == set()
