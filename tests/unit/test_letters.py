"""Dates and times in messages are in the language of the message."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from workhook.core.clock import parse_rfc3339
from workhook.web.frame.texts import in_language
from workhook.web.mail import notification_letter, own_link_letter
from workhook.work.history.notifications import Notification

TOLD = Notification(
    id=1, kind="deadline", created_at=0, read_at=None, actor=None, owner="acme", project_id="prj_1",
    project_name="website", project_title="Website", subject="task", subject_id="tsk_1", title="Logo",
)  # fmt: skip


@pytest.mark.parametrize(
    ("language", "deadline", "words"),
    [
        ("en", "2026-12-04T00:00:00Z", "Due: 4 Dec 2026"),
        ("de", "2026-12-04T00:00:00Z", "Fällig: 04.12.2026"),
        ("en", "2026-12-04T15:30:00Z", "Due: 4 Dec 2026, 15:30 UTC"),
        ("de", "2026-12-04T15:30:00Z", "Fällig: 04.12.2026, 15:30 UTC"),
    ],
)
def test_a_due_date_is_formatted_in_the_language_of_the_message(language: str, deadline: str, words: str) -> None:
    told = replace(TOLD, deadline=parse_rfc3339(deadline))
    with in_language(language):
        letter = notification_letter(told, "", "", invoice=None, has_pdf=False)
    assert letter.notes == [words]


@pytest.mark.parametrize(("language", "at"), [("en", "4 Dec 2026, 15:30 UTC"), ("de", "04.12.2026, 15:30 UTC")])
def test_the_expiry_of_a_link_is_formatted_in_the_language_of_the_message(language: str, at: str) -> None:
    with in_language(language):
        letter = own_link_letter("sign_in_link", "http://x", parse_rfc3339("2026-12-04T15:30:59Z"))
    assert at in letter.notes[0]
