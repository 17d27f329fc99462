"""Sums on pages that list only the newest time entries."""

from __future__ import annotations

import re
from functools import partial

from tests.harness.server import Server
from tests.web.studio import Studio, page_of, text_of
from tests.web.test_unbilled_time import copy_time
from workhook.web.tasks.view import TIMESHEETS_MAX
from workhook.web.time.week import ENTRIES_MAX

MINUTE_MS = 60_000


def spend(studio: Studio, task: str, start: str) -> str:
    given = {"task_id": task, "start_time": start, "duration": MINUTE_MS}
    return str(studio.call("POST", f"{studio.project}/timesheets", **given)["timesheet"]["id"])


def durations(part: str) -> list[str]:
    return [each for each in re.findall(r"\b\d+:\d\d\b", text_of(f"<main {part}</main>")) if each != "0:00"]


def test_a_week_sums_up_more_entries_than_it_lists(studio: Studio, server: Server) -> None:
    column = studio.add_column("Doing")
    first, second = (studio.add_task(column, title) for title in ("First", "Second"))
    earliest = spend(studio, first, "2026-01-05T09:00:00Z")
    server.run(partial(copy_time, timesheet_id=earliest, number=ENTRIES_MAX - 1))
    spend(studio, second, "2026-01-06T09:00:00Z")
    rows = {"task": [["8:20", "8:20"], ["0:01", "0:01"]], "person": [["8:20", "0:01", "8:21"]]}
    for by, found in rows.items():
        page = page_of(studio.owner, f"{studio.base}/time", week="2026-01-05", by=by)
        assert "Showing this week’s newest entries." in page
        table = page.partition("<tbody>")[2].partition("</table>")[0]
        assert [durations(each) for each in table.split("</tr>")[:-1]] == [*found, ["8:20", "0:01", "8:21"]]
        assert '<span class="quiet numbers">8:20</span>' in page
    report = page_of(studio.owner, f"{studio.base}/time/report", **{"from": "2026-01-05", "to": "2026-01-11"})
    assert "8:21" in text_of(report)


def test_a_task_sums_up_more_entries_than_it_lists(studio: Studio, server: Server) -> None:
    task = studio.add_task(studio.add_column("Doing"), "Logo", estimate=10 * 60 * MINUTE_MS)
    entry = spend(studio, task, "2026-01-05T09:00:00Z")
    server.run(partial(copy_time, timesheet_id=entry, number=TIMESHEETS_MAX))
    timer = studio.call("POST", f"{studio.project}/timesheets", task_id=task)["timesheet"]["id"]
    studio.call("POST", f"/timesheets/{timer}/pause")
    page = page_of(studio.owner, f"{studio.base}/tasks/{task}")
    assert "3:21" in page.partition('class="numbers spent">')[2].partition("<")[0]
    assert 'value="33"' in page
    assert f'id="{timer}"' in page, "the newest are listed"
    assert f"/timesheets/{timer}/resume" in page
