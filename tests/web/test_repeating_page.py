"""Recurrence of a task on its page: presets, their description, and custom rules."""

from __future__ import annotations

from tests.web.studio import Studio, page_of, send, text_of


def _rule(studio: Studio, task: str) -> str | None:
    found = studio.api.get(f"/api/v1/tasks/{task}").json()["task"]["repeat"]
    return None if found is None else str(found)


def test_a_preset_repeats_a_task_and_shows_the_next_date(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Sweep", deadline="2026-11-27")
    here = f"{studio.base}/tasks/{task}"
    assert (
        send(studio.owner, f"{here}/edit", field="repeat", repeat="FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR").status_code == 303
    )
    page = page_of(studio.member, here)
    assert "Completing this task creates the next one" in page
    assert '<time datetime="2026-11-30' in page
    german = text_of(studio.member.client.get(here, headers={"accept-language": "de"}).text)
    assert "die am 30. Nov. fällig ist." in german, "no second period after an abbreviated month"
    assert "next on" in page_of(studio.client, here)
    done = studio.add_column("Done", finished=True)
    send(studio.owner, f"{studio.base}/tasks/{task}/move", column_id=done, position="0")
    assert "Next task, created" in page_of(studio.member, here)
    assert "changed the repeat rule" in page_of(studio.owner, f"{studio.base}/activity")
    assert send(studio.owner, f"{here}/edit", field="repeat", repeat="").status_code == 303
    assert _rule(studio, task) is None


def test_a_custom_rule_is_saved_or_refused(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Sweep")
    here = f"{studio.base}/tasks/{task}"
    send(studio.owner, f"{here}/edit", field="repeat", repeat="freq=monthly;bymonthday=-1")
    assert _rule(studio, task) == "FREQ=MONTHLY;BYMONTHDAY=-1"
    assert "Custom" in page_of(studio.member, here)
    answer = send(studio.owner, f"{here}/edit", field="repeat", repeat="FREQ=HOURLY")
    assert answer.status_code == 422
    answer = send(studio.owner, f"{here}/edit", field="repeat", repeat="FREQ=DAILY;COUNT=1")
    assert answer.status_code == 422
    assert "This rule has no further dates" in answer.text
    copy = send(studio.owner, f"{here}/duplicate").headers["location"].rpartition("/")[2]
    assert _rule(studio, copy) == "FREQ=MONTHLY;BYMONTHDAY=-1"
