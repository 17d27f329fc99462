"""Deleting an organization removes all of its rows and files and changes nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from tests.walls.dump import TABLES, Dump
from tests.walls.owners import OWNERS, Find
from tests.walls.world import Walls
from workhook.core.clock import now_ms
from workhook.work.administration import deletion

STAYS = {"accounts", "grants", "tokens"}
"""Tables in which rows about an organization may remain: its number, and rows that belong to its people."""

ELSEWHERE: Mapping[str, str] = {
    "accounts": "the row is renamed, and stays as a number",
    "administrators": "belongs to a person",
    "app_keys": "deleted with the app",
    "app_secrets": "deleted with the app",
    "arrivals": "deleted with the webhook",
    "authorization_codes": "deleted with the app",
    "closing_commits": "deleted with the task",
    "device_codes": "deleted with the app",
    "dispatches": "deleted with the event",
    "event_keys": "deleted by scope",
    "grants": "deleted with the app",
    "idempotency_keys": "belongs to a token; kept for a day",
    "identities": "belongs to a person",
    "key_check": "belongs to the server",
    "lanes": "deleted with the webhook",
    "mail_recipients": "belongs to a person",
    "notification_settings": "belongs to a person",
    "passwords": "belongs to a person",
    "probe": "belongs to the server",
    "rate_windows": "kept for an hour",
    "receivers": "deleted with the webhook",
    "redeliveries": "deleted with the webhook",
    "refresh_tokens": "deleted with the app",
    "sent_forms": "belongs to a person; kept for a day",
    "service_checkout_periods": "deleted with the subscription",
    "service_prices": "deleted with the service",
    "sessions": "belongs to a person",
    "sign_in_failures": "belongs to a person",
    "sign_in_links": "belongs to a person",
    "task_assignees": "deleted with the task",
    "task_blockers": "deleted with the task",
    "task_buckets": "deleted with the column",
    "worker_generation": "belongs to the server",
    "workers": "belongs to the server",
}
"""Tables with neither a project nor an organization, and what happens to their rows."""


def _rows(dump: Dump, account_id: int) -> dict[str, set[object]]:
    find = Find(dump)
    return {
        table: {key for key, row in rows.items() if account_id in set(OWNERS[table](row, find))}
        for table, rows in dump.items()
    }


def _delete(walls: Walls, token: str, organization: str) -> None:
    with walls.server.client(token) as client:
        assert client.get(f"/orgs/{organization}").status_code == 200
        assert (answer := client.delete(f"/orgs/{organization}")).status_code == 202, answer.text
        assert answer.json() == {}
        for path in (f"/orgs/{organization}", f"/users/{organization}"):
            assert client.get(path).status_code == 404


def test_every_table_is_emptied_or_listed_with_what_happens_to_its_rows() -> None:
    emptied = {table.name for table in deletion.tables_of_projects()}
    emptied |= {table.name for table, _ in deletion.tables_of_accounts()}
    emptied |= {"events", "deliveries", "hooks", "projects"}
    names = {table.name for table in TABLES}
    assert emptied.isdisjoint(ELSEWHERE)
    assert emptied | ELSEWHERE.keys() == names, "add a new table to `ELSEWHERE`"
    # Tables said to be deleted with another one reference it with ON DELETE CASCADE.
    for name, says in ELSEWHERE.items():
        if found := re.fullmatch(r"deleted with the (\w+)", says):
            if name == "dispatches":
                continue
            what = {"subscription": "service_checkouts"}.get(found[1], f"{found[1]}s")
            what = "hooks" if what == "webhooks" else what
            keys = metadata_keys(name)
            assert any(key.column.table.name == what and key.ondelete == "CASCADE" for key in keys), name


def metadata_keys(name: str) -> set[sa.ForeignKey]:
    [table] = [each for each in TABLES if each.name == name]
    return table.foreign_keys


def test_deleting_an_organization_removes_all_of_it_and_nothing_else(walls: Walls) -> None:
    walls.deliver()
    before = walls.reader.dump()
    here, beyond = walls.site.scene.organization, walls.beyond.account
    files = Path(walls.server.data, "files")
    contents = {row["blob"] for row in before["files"].values()} | {r["blob"] for r in before["billing_logos"].values()}
    own = _rows(before, beyond.id)
    others = {row["id"] for row in before["accounts"].values()} - {beyond.id}
    _delete(walls, walls.beyond.world.token, walls.beyond.world.organization)

    hidden = walls.reader.dump()  # deliveries are pending while the worker is stopped
    assert not [r for r in hidden["memberships"].values() if r["organization_id"] == beyond.id]
    waits = {r["hook_id"] for r in hidden["dispatches"].values() if r["next_attempt_at"] is not None}
    assert waits, "its own webhooks get the event"
    now = now_ms()
    assert not walls.server.run(partial(deletion.purge_one, account_id=beyond.id, now=now))
    assert walls.server.run(
        partial(deletion.purge_one, account_id=beyond.id, now=now + deletion.LAST_DELIVERIES_MS + 60_000)
    )

    after = walls.reader.dump()
    left = {table: keys & after[table].keys() for table, keys in own.items()}
    assert {table for table, keys in left.items() if keys} <= STAYS
    [number] = [row for row in after["accounts"].values() if row["id"] == beyond.id]
    assert (number["kind"], number["name"], number["email"]) == ("deleted", None, None)
    assert others <= {row["id"] for row in after["accounts"].values()}
    kept = {row["blob"] for table in ("files", "billing_logos") for row in after[table].values()}
    stored = {each.name for each in files.rglob("*") if each.is_file()}
    assert not (contents - kept) & stored
    assert kept <= stored
    [entry] = [row for row in after["audit_log"].values() if row["action"] == "organization.delete"]
    assert (entry["account_id"], entry["target"]) == (0, walls.beyond.world.organization)
    find = Find(before)
    for table, rows in before.items():
        for key, row in rows.items():
            if table not in ("rate_windows", "tokens", "timesheet_changes", "timesheet_sums") and beyond.id not in set(
                OWNERS[table](row, find)
            ):
                assert after[table].get(key) == row, (table, key)
    with walls.server.client(walls.beyond.both_token) as client:
        assert client.get(f"/orgs/{here}").status_code == 200
