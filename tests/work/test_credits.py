"""Granting, spending, reversing and expiring task credits, and their events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.harness.server import Server, SharedServer
from tests.harness.world import must
from tests.work.scene import Scene
from tests.work.studio import Studio
from workhook.core.clock import DAY_MS, now_ms, to_millis_text
from workhook.core.ids import new_id
from workhook.http.calls import Services
from workhook.identity.tables import projects
from workhook.storage.dialects import SQLITE
from workhook.storage.metadata import insert_into, metadata
from workhook.work.money.credits import actions
from workhook.work.money.credits.actions import expire_credits
from workhook.work.money.credits.schemas import task_credits


def scene_of(studio: Studio) -> Scene:
    return Scene(studio.owner, studio.project_id, studio.world.organization)


@pytest.fixture
def task_id(studio: Studio) -> str:
    """Create a task and discard its events."""
    made = scene_of(studio).task(title="Logo")
    studio.happened()
    return made


@pytest.fixture
def path(studio: Studio) -> str:
    return f"{studio.project}/task_credits"


@pytest.fixture
def grant(studio: Studio, path: str) -> Callable[..., Any]:
    return lambda amount, **more: studio.owner.post(path, json={"amount": amount, **more})["task_credit"]


@pytest.fixture
def spend(studio: Studio, path: str, task_id: str) -> Callable[..., Any]:
    body = {"kind": "spend", "task_id": task_id}
    return lambda amount, **more: studio.owner.post(path, json={"amount": amount, **body, **more})["task_credit"]


def balance(studio: Studio) -> Any:
    return studio.owner.get(f"{studio.project}/task_credits/balance")


def entries(studio: Studio) -> list[tuple[str, float, float]]:
    found = studio.owner.get(f"{studio.project}/task_credits")["task_credits"]
    return [(each["kind"], each["amount"], each["balance_after"]) for each in found]


@pytest.fixture(scope="module")
def server(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server without chores, which might otherwise expire credits during a test."""
    folder = tmp_path_factory.mktemp("server")
    server = SharedServer(folder, backend.new(folder), command=("serve", "--port", "0", "--no-worker")).start()
    yield server
    server.close()


def in_ms(after_ms: int) -> str:
    return to_millis_text(now_ms() + after_ms)


def make_due(studio: Studio, *credit_ids: str) -> None:
    """Move the expiry of these grants into the past."""
    for each in credit_ids:
        update = sa.update(task_credits).where(task_credits.c.id == each)
        studio.server.execute(update.values(expires_at=now_ms() - 1))


# --- grants and spends -------------------------------------------------------------------------------------------


def test_credits_can_be_granted(studio: Studio, path: str) -> None:
    expires = in_ms(DAY_MS)
    answer = studio.owner.post(path, json={"amount": 12.5, "notes": "Plan", "expires_at": expires})
    assert answer["success"] is True
    record = answer["task_credit"]
    assert set(record) == {
        "id", "kind", "amount", "balance_after", "task", "notes", "user", "reversed", "reverses", "expires_at",
        "created_at", "updated_at",
    }  # fmt: skip
    assert record["id"].startswith("crd_")
    assert (record["kind"], record["amount"], record["balance_after"]) == ("grant", 12.5, 12.5)
    assert (record["task"], record["notes"], record["expires_at"]) == (None, "Plan", expires)
    assert (record["reversed"], record["reverses"]) == (False, None)
    assert record["user"]["username"] == studio.world.owner
    assert studio.owner.get(path) == {"success": True, "task_credits": [record]}
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == ("task_credit", "granted", record)


def test_credits_can_be_spent(studio: Studio, path: str, task_id: str, grant: Callable[..., Any]) -> None:
    grant(10)
    studio.happened()
    record = studio.owner.post(path, params={"amount": "2.75", "kind": "spend", "task_id": task_id})["task_credit"]
    assert (record["kind"], record["amount"], record["balance_after"]) == ("spend", -2.75, 7.25)
    assert record["task"] == {"id": task_id, "title": "Logo"}
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == ("task_credit", "spent", record)
    assert balance(studio) == {"success": True, "balance": 7.25, "granted": 10, "used": 2.75, "expires_next": None}


def test_an_empty_ledger(studio: Studio, path: str) -> None:
    assert studio.owner.get(path) == {"success": True, "task_credits": []}
    assert balance(studio) == {"success": True, "balance": 0, "granted": 0, "used": 0, "expires_next": None}


def test_invalid_parameters_are_refused(studio: Studio, path: str) -> None:
    cases: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({}, {"amount": "missing"}),
        ({"amount": 0}, {"amount": "invalid"}),
        ({"amount": -1}, {"amount": "invalid"}),
        ({"amount": 1.001}, {"amount": "invalid"}),
        ({"amount": "1"}, {"amount": "invalid"}),
        ({"amount": True, "kind": "gift", "more": 1}, {"amount": "invalid", "kind": "invalid", "more": "unknown"}),
        ({"amount": 1, "kind": "expire"}, {"kind": "invalid"}),
        ({"amount": 1, "kind": "spend"}, {"task_id": "missing"}),
        (
            {"amount": 1, "kind": "spend", "task_id": "tsk_0", "expires_at": "2999-01-01T00:00:00Z"},
            {"task_id": "invalid", "expires_at": "invalid"},
        ),
        ({"amount": 1, "task_id": "tsk_0"}, {"task_id": "invalid"}),
        ({"amount": 1, "expires_at": "2020-01-01T00:00:00Z"}, {"expires_at": "invalid"}),
        ({"amount": 1, "expires_at": "2999-01-01T00:00:00"}, {"expires_at": "invalid"}),
    ]
    for body, faults in cases:
        assert studio.owner.faults("POST", path, json=body) == faults, body
        assert entries(studio) == [], body


def test_foreign_and_deleted_tasks_cannot_be_paid_for(studio: Studio, elsewhere: Studio, path: str) -> None:
    for task_id in (scene_of(elsewhere).task(), scene_of(studio).deleted_task()):
        body = {"amount": 1, "kind": "spend", "task_id": task_id}
        assert studio.owner.faults("POST", path, json=body) == {"task_id": "invalid"}


def test_a_balance_beyond_the_representable_range_is_refused(
    studio: Studio, path: str, grant: Callable[..., Any]
) -> None:
    grant(10**11)
    for amount in (0.01, 10**11):
        assert studio.owner.faults("POST", path, json={"amount": amount}) == {"amount": "invalid"}


def test_overspending_is_refused(studio: Studio, path: str, task_id: str, grant: Callable[..., Any]) -> None:
    grant(10)
    studio.happened()
    body = {"amount": 10.01, "kind": "spend", "task_id": task_id}
    assert studio.owner.refused(409, "POST", path, json=body)["code"] == "insufficient_credits"
    assert (studio.happened(), balance(studio)["balance"]) == ([], 10)


def test_concurrent_spends_never_overspend(studio: Studio, path: str, task_id: str, grant: Callable[..., Any]) -> None:
    grant(4)
    grant(6)
    body = {"amount": 1, "kind": "spend", "task_id": task_id}
    with ThreadPoolExecutor(20) as pool:
        calls = [pool.submit(studio.owner.call, "POST", path, json=body) for _ in range(20)]
    statuses = [each.result().status_code for each in calls]
    assert (statuses.count(200), statuses.count(409)) == (10, 10)
    assert balance(studio) == {"success": True, "balance": 0, "granted": 10, "used": 10, "expires_next": None}
    assert [after for _, _, after in entries(studio)] == [4, 10, *range(9, -1, -1)]


# --- reversing ---------------------------------------------------------------------------------------------------


def test_a_spend_can_be_reversed(studio: Studio, grant: Callable[..., Any], spend: Callable[..., Any]) -> None:
    grant(10)
    spent = spend(4)
    studio.happened()
    assert studio.owner.delete(f"/task_credits/{spent['id']}") == {"success": True}
    _, before, record = studio.owner.get(f"{studio.project}/task_credits")["task_credits"]
    assert before == {**spent, "reversed": True, "updated_at": before["updated_at"]}
    assert before["updated_at"] > spent["updated_at"]
    assert (record["kind"], record["amount"], record["balance_after"]) == ("reversal", 4, 10)
    assert (record["reverses"], record["task"], record["reversed"]) == (spent["id"], spent["task"], False)
    [event] = studio.happened()
    assert (event.action, event.record) == ("reversed", record)
    assert balance(studio) == {"success": True, "balance": 10, "granted": 10, "used": 0, "expires_next": None}

    assert studio.owner.delete(f"/task_credits/{spent['id']}") == {"success": True}
    refused = studio.owner.refused(409, "DELETE", f"/task_credits/{record['id']}")
    assert refused["code"] == "not_reversible"
    assert (studio.happened(), len(entries(studio))) == ([], 3)


def test_reversed_credits_can_be_spent_again(
    studio: Studio, grant: Callable[..., Any], spend: Callable[..., Any]
) -> None:
    grant(3)
    grant(7)
    spent = spend(8)
    studio.owner.delete(f"/task_credits/{spent['id']}")
    assert spend(10)["balance_after"] == 0


def test_only_an_unused_grant_can_be_reversed(
    studio: Studio, grant: Callable[..., Any], spend: Callable[..., Any]
) -> None:
    used, unused = grant(5), grant(3)
    spent = spend(2)
    assert studio.owner.refused(409, "DELETE", f"/task_credits/{used['id']}")["code"] == "credit_used"
    studio.owner.delete(f"/task_credits/{unused['id']}")
    assert entries(studio)[-1] == ("reversal", -3, 3)
    assert balance(studio)["granted"] == 5
    studio.owner.delete(f"/task_credits/{spent['id']}")
    studio.owner.delete(f"/task_credits/{used['id']}")
    assert balance(studio) == {"success": True, "balance": 0, "granted": 0, "used": 0, "expires_next": None}


def test_concurrent_reversals_take_effect_once(
    studio: Studio, grant: Callable[..., Any], spend: Callable[..., Any]
) -> None:
    grant(10)
    spent = spend(4)
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(studio.owner.call, "DELETE", f"/task_credits/{spent['id']}") for _ in range(8)]
    assert {each.result().status_code for each in calls} == {200}
    assert [kind for kind, _, _ in entries(studio)] == ["grant", "spend", "reversal"]


# --- expiry ------------------------------------------------------------------------------------------------------


def test_expired_credits_are_gone_before_the_chore_runs(
    studio: Studio, path: str, task_id: str, grant: Callable[..., Any], spend: Callable[..., Any]
) -> None:
    soon, later = grant(5, expires_at=in_ms(DAY_MS)), grant(3, expires_at=in_ms(2 * DAY_MS))
    grant(2)
    spend(1)
    assert balance(studio)["expires_next"] == soon["expires_at"]
    make_due(studio, soon["id"])
    after = {"success": True, "balance": 5, "granted": 10, "used": 1, "expires_next": later["expires_at"]}
    assert balance(studio) == after
    studio.happened()
    body = {"amount": 6, "kind": "spend", "task_id": task_id}
    assert studio.owner.refused(409, "POST", path, json=body)["code"] == "insufficient_credits"
    assert studio.happened() == []
    assert spend(5)["balance_after"] == 0
    assert entries(studio)[-2:] == [("expire", -4, 5), ("spend", -5, 0)]
    expired, spent = studio.happened()
    assert (expired.action, expired.payload["sender"], expired.record["user"]) == ("expired", None, None)
    assert spent.action == "spent"
    make_due(studio, later["id"], grant(1, expires_at=in_ms(DAY_MS))["id"])
    assert grant(2)["balance_after"] == 2
    assert entries(studio)[-2:] == [("expire", -1, 0), ("grant", 2, 2)], "what has expired goes before a grant, too"


def test_concurrent_chores_expire_each_grant_once(studio: Studio, grant: Callable[..., Any]) -> None:
    made = [grant(amount, expires_at=in_ms(DAY_MS))["id"] for amount in (1, 2, 3)]
    grant(4)
    make_due(studio, *made[:2])
    studio.happened()

    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(studio.server.run, lambda services: expire_credits(services, now_ms())) for _ in range(3)]
        counts = [each.result() for each in runs]
    assert sum(counts) == 2
    assert entries(studio)[-2:] == [("expire", -1, 9), ("expire", -2, 7)]
    assert [each.action for each in studio.happened()] == ["expired", "expired"]
    refused = studio.owner.refused(409, "DELETE", f"/task_credits/{made[0]}")
    assert refused["code"] == "credit_used"


def test_credits_returned_to_an_expired_grant_expire_at_once(
    studio: Studio, grant: Callable[..., Any], spend: Callable[..., Any]
) -> None:
    soon = grant(5, expires_at=in_ms(DAY_MS))
    grant(3)
    spent = spend(6)
    make_due(studio, soon["id"])
    studio.happened()
    studio.owner.delete(f"/task_credits/{spent['id']}")
    assert entries(studio)[-2:] == [("reversal", 6, 8), ("expire", -5, 3)]
    assert [each.action for each in studio.happened()] == ["reversed", "expired"]
    assert balance(studio)["balance"] == 3


def test_a_spend_can_draw_on_more_grants_than_one_batch(
    studio: Studio, grant: Callable[..., Any], spend: Callable[..., Any]
) -> None:
    async def many(services: Services) -> None:
        async with services.database.transaction() as tx:
            row = must(await tx.fetch_one(sa.select(task_credits).where(task_credits.c.id == first)))
            known = {column.name: row[column.name] for column in task_credits.c}
            insert = insert_into(task_credits, *known)
            for number in range(150):
                due = now_ms() - 1 if number % 2 else None
                changed = {"id": new_id("crd"), "balance_after_minor": 100 * (number + 2), "expires_at": due}
                await tx.execute(insert, {**known, **changed})
            last = {"id": "crd_7" + "z" * 25, "balance_after_minor": 100 * 152}
            await tx.execute(insert, {**known, **last})

    first = grant(1)["id"]
    studio.server.run(many)
    assert balance(studio)["balance"] == 77
    assert spend(77)["balance_after"] == 0


@pytest.mark.parametrize("statement", [actions._next, actions._overdue_ledgers])
def test_a_long_ledger_is_not_scanned(statement: sa.Select[Any]) -> None:
    """Open grants are found through a partial index that contains only grants with a remainder."""
    sql = str(statement.compile(dialect=SQLITE))
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        metadata.create_all(connection, tables=[task_credits, projects])
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", (1,) * sql.count("?"))
        plan = [row[3] for row in rows]
    engine.dispose()
    looks = [each for each in plan if each.startswith(("SEARCH task_credits", "SCAN task_credits"))]
    whole = [each for each in looks if "ix_task_credits_open" not in each and "ix_task_credits_expiring" not in each]
    assert len(looks) > len(whole) <= 1  # only the last entry comes from the full index
