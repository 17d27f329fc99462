"""A chore changes rows of the tables listed here and of no others. The number of rows depends on the test world."""

from __future__ import annotations

from functools import partial

from tests.walls.dump import changes
from tests.walls.test_side_effects import SIGNS
from tests.walls.world import Walls
from workhook.chores import CHORES, run_once
from workhook.core.clock import DAY_MS, now_ms

LATER = 400 * DAY_MS
"""Late enough for everything that expires."""

EFFECTS: dict[str, str] = {
    "idempotency_keys": "-idempotency_keys",
    "tokens_and_sessions": "-sessions -sign_in_links -tokens",
    "audit_log": "-audit_log",
    "deleted_tasks": "-tasks",
    "deleted_files": "-files",
    # These have nothing to do in this world.
    "deleted_projects": "",
    "deleted_organizations": "",
    "expired_task_credits": "",
    "deadlines": "",
    "imported_assignees": "",
    "notifications": "-notifications",
    "timesheet_sums": "",  # ignored by all comparisons, see `dump.SUMMED`
    "service_checkout_periods": (
        "+dispatches +events +invoices +notifications +service_checkout_periods +task_credits ~invoice_numbers"
        " ~service_checkouts"
    ),
    "redeliveries": "",  # all requested redeliveries are already done
    "mail": "",  # there is no mail server
    "deliveries": "-deliveries -dispatches -events",
}


def test_every_chore_has_its_effects_declared() -> None:
    assert {each.name for each in CHORES} == set(EFFECTS)


def test_every_chore_changes_only_its_declared_tables(walls: Walls) -> None:
    walls.deliver()
    wrong = []
    for chore in CHORES:
        before = walls.reader.dump()
        done = walls.server.run(partial(run_once, chore=chore, now=now_ms() + LATER))
        found = " ".join(sorted({SIGNS[what] + table for table, what, _, _ in changes(before, walls.reader.dump())}))
        if found != EFFECTS.get(chore.name):
            wrong.append(f"{chore.name} ({done}): {found or 'nothing'}; not: {EFFECTS.get(chore.name)}")
    assert wrong == [], "\n".join(wrong)
