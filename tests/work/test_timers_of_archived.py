"""A timer that runs in a project ends when the project is archived: nobody could stop it there."""

from __future__ import annotations

from tests.work.studio import Studio


def test_archiving_a_project_finishes_the_timers_that_run_in_it(studio: Studio) -> None:
    timers = [
        each.post(f"{studio.project}/timesheets", json={"task_id": studio.task()})["timesheet"]["id"]
        for each in (studio.owner, studio.member)
    ]
    studio.owner.patch(studio.project, json={"archive": True})
    for timer in timers:
        found = studio.owner.get(f"/timesheets/{timer}")["timesheet"]
        assert (found["is_active"], found["finished"]) == (False, True)
    assert studio.owner.get("/timesheets/running")["timesheets"] == []
