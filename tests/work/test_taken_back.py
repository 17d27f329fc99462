"""A write that PostgreSQL rolls back because of a concurrent one is retried and takes effect once."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import asyncpg

from tests.harness.receiver import Receiver
from tests.harness.waiting import WAIT_S, finish
from tests.work.scene import Scene
from tests.work.studio import Studio

_WAITS = "SELECT count(*) FROM pg_stat_activity, pg_sleep(0.01) WHERE $1 = ANY (pg_blocking_pids(pid))"


async def _provoke_deadlock(url: str, invoice_id: str, timesheet_id: str, held: threading.Event) -> None:
    """Provoke a deadlock in which the server is the victim.

    Lock the time entry and set `held`. Wait until a backend waits for that lock, which is the server's request holding
    the invoice, then lock the invoice. The server checks for deadlocks after one second as usual and this connection
    never does, so the server must roll back.
    """
    other = await asyncpg.connect(url)
    watcher = await asyncpg.connect(url)
    try:
        await other.execute("SET deadlock_timeout = '1h'")
        async with other.transaction(), asyncio.timeout(WAIT_S):
            await other.execute("SELECT FROM timesheets WHERE id = $1 FOR UPDATE", timesheet_id)
            held.set()
            while not await watcher.fetchval(_WAITS, other.get_server_pid()):
                pass
            await other.execute("SELECT FROM invoices WHERE id = $1 FOR UPDATE", invoice_id)
    finally:
        await other.close()
        await watcher.close()


def _retries(studio: Studio) -> float:
    lines = studio.nobody.http.get("/metrics").text.splitlines()
    mine = 'workhook_database_rolled_back_total{outcome="again",reason="deadlock"}'
    return next((float(line.split()[-1]) for line in lines if line.startswith(mine)), 0)


def test_a_deadlock_is_retried(studio: Studio, scene: Scene, receiver: Receiver) -> None:
    hook = {"config": {"url": receiver.url, "secret": "a secret of some length"}, "events": ["invoice"]}
    assert studio.owner.http.post(f"{studio.world.repo_path}/hooks", json={"name": "web", **hook}).status_code == 201
    timesheet_id = scene.timesheet()
    body = {"timesheet_ids": [timesheet_id]}
    invoice = studio.owner.post(f"{studio.project}/invoices", json=body)["invoice"]
    path = f"/invoices/{invoice['id']}"
    studio.owner.post(f"{path}/send")
    studio.happened()
    before, url = _retries(studio), studio.server.settings.get("database_url")
    with ThreadPoolExecutor(1) as pool:
        if url is not None:  # SQLite has only one writer
            held = threading.Event()
            trouble = pool.submit(finish, lambda: _provoke_deadlock(url, invoice["id"], timesheet_id, held))
            assert held.wait(WAIT_S)
        answer = studio.owner.call("POST", f"{path}/void", headers={"Idempotency-Key": "once"})
        if url is not None:
            trouble.result()
    assert (answer.status_code, answer.json()["invoice"]["status"]) == (200, "void")
    # There may be several retries if the server locks the invoice again before the other connection wakes up.
    assert _retries(studio) > before if url is not None else _retries(studio) == before
    again = studio.owner.call("POST", f"{path}/void", headers={"Idempotency-Key": "once"})
    assert (again.content, again.headers["idempotent-replayed"]) == (answer.content, "true")
    assert [each.action for each in studio.happened()] == ["voided"]
    log = studio.owner.http.get(f"{studio.world.org_path}/audit-log").json()
    assert [each["action"] for each in log].count("invoice.void") == 1
    receiver.wait_for(lambda _: len(receiver.events("invoice")) == 3)
    told = [each.payload()["action"] for each in receiver.events("invoice")]
    assert sorted(told) == ["created", "sent", "voided"]  # once each; concurrent deliveries may arrive in any order
