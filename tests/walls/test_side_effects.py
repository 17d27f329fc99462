"""A write changes exactly the rows listed in `tests.walls.effects`, and a refused write changes none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.api.wire import new_url
from tests.identity.asking import key_of
from tests.walls.dump import Dump, changes
from tests.walls.effects import EFFECTS
from tests.walls.good import GOOD
from tests.walls.pages import WRITES, Pages
from tests.walls.spares import COMING, Asked
from tests.walls.walk import OPERATIONS, ask, callers, in_turn, requests
from tests.walls.world import Walls
from workhook.http.operations import PLACES, Operation

SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def effects(before: Dump, after: Dump) -> str:
    """Return the changes per table, such as `+tasks +events:2 ~columns`, with counts above one.

    Ignores refusals, which enter the audit log with a delay, and the revision that PostgreSQL increments in a column
    when the order of its tasks changes.
    """
    found: Counter[str] = Counter()
    for table, what, key, names in changes(before, after):
        if (table, names) == ("columns", ("revision",)):
            continue
        if table == "audit_log" and after[table].get(key, {}).get("status") is not None:
            continue
        found[SIGNS[what] + table] += 1
    return " ".join(name if count == 1 else f"{name}:{count}" for name, count in sorted(found.items()))


NEEDS_A_MAIL_SERVER = "POST /login/forgotten"  # not set up here, see `tests/mail/test_forgotten.py`


def test_every_write_has_its_effects_declared() -> None:
    """Pages of places are exempt: they use the API's actions, and `tests/web/test_places.py` covers access."""
    written = {key_of(each) for each in OPERATIONS if each.method != "GET" and each.area is not PLACES}
    assert written - {NEEDS_A_MAIL_SERVER} == set(EFFECTS)


@pytest.fixture(scope="module")
def pages(walls: Walls) -> Iterator[Pages]:
    pages = Pages(walls)
    yield pages
    pages.close()


def _add_hook_for_everything(walls: Walls) -> None:
    """Create a webhook for every event of A, so that each event has a dispatch."""
    body = {"name": "web", "events": ["*"], "config": {"url": new_url()}}
    made = walls.site.owners["classic"].post(f"{walls.site.here.org_path}/hooks", json=body)
    assert made.status_code == 201, made.text


def _refused_and_allowed(walls: Walls, operation: Operation) -> Iterator[Asked]:
    """Yield one request that is usually refused, and one that is allowed."""
    first, *_, last = callers(walls.site, operation)
    key = key_of(operation)
    good = GOOD.get(key)
    yield from requests(walls, operation, [first] if good or key in COMING else [first, last])
    if good:
        yield good(walls)


@pytest.mark.whole
def test_every_write_changes_only_its_declared_rows(walls: Walls) -> None:
    wrong: list[str] = []
    _add_hook_for_everything(walls)
    with walls.server.client(None) as client:
        for operation in (each for each in in_turn() if each.method != "GET"):
            key, succeeded, seen = key_of(operation), False, []
            for asked in _refused_and_allowed(walls, operation):
                before = walls.reader.dump()
                answer = ask(client, asked)
                found = effects(before, walls.reader.dump())
                if answer.is_success and asked.by.caller == "stranger":
                    continue  # in an organization of their own
                expected = EFFECTS.get(key, "") if answer.is_success else ""
                succeeded |= answer.is_success
                seen.append(f"{answer.status_code} {found}")
                if found != expected:
                    who = f"{key} by {asked.by.name}, {answer.status_code}"
                    wrong.append(f"{who}: {found or 'nothing'}; not: {expected or 'nothing'}")
            if not succeeded:
                wrong.append(f"{key} has not succeeded for anyone: {seen}")
    assert wrong == [], f"{len(wrong)}\n" + "\n".join(wrong)


@pytest.mark.whole  # after `test_every_write_changes_only_its_declared_rows`, whose webhook hears of it
def test_every_page_changes_only_its_declared_rows(walls: Walls, pages: Pages) -> None:
    wrong: list[str] = []
    for key, prepare in WRITES.items():
        send = prepare(pages)
        before = walls.reader.dump()
        answer = send()
        found = effects(before, walls.reader.dump())
        assert answer.status_code < 400, f"{key}: {answer.status_code} {answer.text[:300]}"
        expected = EFFECTS.get(key, "")
        if found != expected:
            wrong.append(f"{key}, {answer.status_code}: {found or 'nothing'}; not: {expected or 'nothing'}")
    assert wrong == [], "\n".join(wrong)
