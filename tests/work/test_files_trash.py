"""Purging deleted files and the leftovers of interrupted uploads."""

from __future__ import annotations

import os

import pytest

from tests.work.studio import Studio
from workhook.core.clock import DAY_MS, now_ms
from workhook.core.ids import lower_bound_id, new_id
from workhook.work.files import actions as trash
from workhook.work.files.actions import purge


@pytest.fixture(autouse=True)
def _empty_trash(studio: Studio) -> None:
    """Purge what earlier tests left, since purging covers all organizations."""
    run_purge(studio, 31)


def upload(studio: Studio, name: str) -> str:
    """Upload a file whose content is the name of the organization followed by its own."""
    content = f"{studio.world.organization} {name}".encode()
    made: str = studio.owner.post(f"{studio.project}/files", files={"file": (name, content)})["file"]["id"]
    return made


def stored(studio: Studio) -> list[str]:
    """Return the contents in the store that belong to this test."""
    texts = [each.read_text() for each in (studio.server.data / "files").rglob("*") if each.is_file()]
    own = f"{studio.world.organization} "
    return sorted(text.removeprefix(own) for text in texts if text.startswith(own))


def run_purge(studio: Studio, days: float) -> int:
    """Purge as of `days` from now."""
    removed: int = studio.server.run(lambda services: purge(services, now_ms() + round(days * DAY_MS)))
    return removed


def create_leftover(studio: Studio, name: str, text: str, days: float) -> None:
    """Create a file in the store as left `days` ago by a process that crashed."""
    path = studio.server.data / "files" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{studio.world.organization} {text}")
    at_s = (now_ms() - days * DAY_MS) / 1000
    os.utime(path, (at_s, at_s))


def place(blob: str) -> str:
    return f"{blob[-2:]}/{blob}"


def test_row_and_content_are_purged_after_thirty_days(studio: Studio) -> None:
    kept, gone = upload(studio, "kept"), upload(studio, "gone")
    studio.owner.delete(f"/files/{gone}")
    assert run_purge(studio, 29.9) == 0
    assert stored(studio) == ["gone", "kept"]
    assert run_purge(studio, 30.1) == 1
    assert stored(studio) == ["kept"]
    studio.owner.refused(404, "POST", f"/files/{gone}/restore")
    assert studio.owner.call("GET", f"/files/{kept}/content").text.endswith(" kept")
    assert run_purge(studio, 30.1) == 0


def test_many_files_are_purged_in_batches(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trash, "BATCH", 2)
    for number in range(5):
        studio.owner.delete(f"/files/{upload(studio, str(number))}")
    assert run_purge(studio, 31) == 5
    assert stored(studio) == []


def test_orphaned_content_is_swept_after_a_day(studio: Studio) -> None:
    upload(studio, "kept")
    deleted = upload(studio, "deleted")
    studio.owner.delete(f"/files/{deleted}")
    create_leftover(studio, place(new_id("blb")), "an orphan", 1.1)
    create_leftover(studio, place(new_id("blb")), "perhaps a file in a moment", 0.9)
    create_leftover(studio, "incoming/blb_" + "0" * 25 + "c", "an old draft", 1.1)
    create_leftover(studio, "incoming/blb_" + "0" * 25 + "d", "under way", 0.9)
    create_leftover(studio, "0a/notes.txt", "somebody else's", 400)
    assert run_purge(studio, 0) == 0
    assert stored(studio) == ["deleted", "kept", "perhaps a file in a moment", "somebody else's", "under way"]
    assert run_purge(studio, 2) == 0  # by then, kept and deleted are older than a day
    assert stored(studio) == ["deleted", "kept", "somebody else's"]


def test_files_of_another_database_are_left_alone(studio: Studio) -> None:
    create_leftover(studio, place(lower_bound_id("blb", now_ms() - 3 * DAY_MS)), "from before this database", 2)
    assert run_purge(studio, 0) == 0
    assert stored(studio) == ["from before this database"]
