"""Adding unbilled time to a draft or to a new invoice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness.server import Server
from tests.web.places_kit import add_in, signed_in
from tests.web.studio import Studio, open_studio, page_of, send, text_of
from workhook.core.ids import new_id
from workhook.http.calls import Services
from workhook.storage.metadata import insert_into
from workhook.work.money.invoices.rules import PRINTED_MAX_CHARS
from workhook.work.money.invoices.schemas import TIMESHEETS_MAX
from workhook.work.time.timesheets.schemas import timesheets

_insert = insert_into(timesheets, *(each.name for each in timesheets.c))
_set_rate = (
    sa.update(timesheets)
    .where(timesheets.c.id == sa.bindparam("timesheet_id"))
    .values(billable_rate_minor=sa.bindparam("rate", type_=sa.BigInteger))
)
OFFER = "Add unbilled time (3:20)"


def spend(studio: Studio, task: str, day: int, minutes: int, **more: Any) -> str:
    given = {"task_id": task, "start_time": f"2026-01-{day:02}T09:00:00Z", "duration": minutes * 60_000}
    made = studio.call("POST", f"{studio.project}/timesheets", **given, **{"billable": True, **more})
    return str(made["timesheet"]["id"])


@pytest.fixture
def spent(studio: Studio) -> Studio:
    """Return a studio with 3:20 of unbilled time, some time that is not billable, and a paused timer."""
    column = studio.add_column("Doing")
    task = studio.add_task(column, "Drawn")
    spend(studio, task, 5, 150, billable_rate=80)
    spend(studio, task, 6, 50, billable_rate=80)
    spend(studio, task, 7, 30, billable=False)
    given = {"task_id": task, "billable": True, "billable_rate": 80}
    timer = studio.call("POST", f"{studio.project}/timesheets", **given)["timesheet"]["id"]
    studio.call("POST", f"/timesheets/{timer}/pause")
    return studio


def draft_of(studio: Studio, **more: Any) -> str:
    """Create a draft with a manual line and return its address."""
    items = [{"description": "Fee", "qty": 1, "unit_price": 10}]
    made = studio.call("POST", f"{studio.project}/invoices", invoice_items=items, **{"currency": "USD", **more})
    return f"{studio.base}/billing/{made['invoice']['id']}"


def lines_of(studio: Studio, path: str) -> list[tuple[str, float]]:
    invoice = studio.call("GET", f"/invoices/{path.rpartition('/')[2]}")["invoice"]
    return [(each["kind"], each["qty"]) for each in invoice["invoice_items"]]


def test_unbilled_time_is_added_to_a_draft(spent: Studio) -> None:
    path = draft_of(spent)
    assert OFFER in text_of(page_of(spent.member, path))
    answer = spent.member.fill(path, f"{path}/unbilled")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{path}#lines"), answer.text
    page = page_of(spent.member, path)
    assert "2 time entries added." in page
    assert "276.67 USD" in text_of(page)
    assert "Add unbilled time" not in text_of(page)
    assert lines_of(spent, path) == [("item", 1), ("time", 2.5), ("time", 0.833333)]


def test_a_draft_explains_why_time_is_not_offered(spent: Studio) -> None:
    words = "0:30 of this project’s time isn’t billable, so it isn’t offered here. Change it under"
    path = draft_of(spent)
    page = page_of(spent.member, path)
    assert words in text_of(page)
    assert f'<a href="{spent.base}/time">Time</a>.' in page
    send(spent.member, f"{path}/unbilled")
    page = page_of(spent.member, path)
    assert words in text_of(page)
    assert "Add unbilled time" not in page
    sent = draft_of(spent)
    assert send(spent.member, f"{sent}/send").status_code == 303
    assert words not in text_of(page_of(spent.member, sent))


def test_a_draft_says_nothing_without_such_time(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("Doing"), "Drawn")
    assert "Unbilled time" not in text_of(page_of(studio.member, draft_of(studio)))
    spend(studio, task, 5, 150, billable_rate=80)
    page = page_of(studio.member, draft_of(studio))
    assert "Add unbilled time (2:30)" in page
    assert "isn’t billable" not in page


def test_existing_lines_stay_and_new_time_gets_its_own_line(spent: Studio) -> None:
    path = draft_of(spent, group_by="task")
    assert send(spent.member, f"{path}/unbilled").status_code == 303
    assert lines_of(spent, path) == [("item", 1), ("time", 3.333333)]
    task = spent.add_task(spent.add_column("Later"), "Printed")
    spend(spent, task, 8, 60, billable_rate=80)
    assert "Add unbilled time (1:00)" in text_of(page_of(spent.member, path))
    assert send(spent.member, f"{path}/unbilled").status_code == 303
    assert lines_of(spent, path) == [("item", 1), ("time", 3.333333), ("time", 1)]


def test_adding_again_adds_nothing(spent: Studio) -> None:
    path = draft_of(spent)
    for words in ("2 time entries added.", "No unbilled time left to add."):
        answer = send(spent.member, f"{path}/unbilled")
        assert answer.status_code == 303
        assert words in page_of(spent.member, path)
    assert len(lines_of(spent, path)) == 3


def test_time_without_a_rate_is_named_and_nothing_is_added(spent: Studio) -> None:
    task = spent.add_task(spent.add_column("Later"), "Printed")
    lacking = [spend(spent, task, day, 60) for day in (8, 9)]
    path = draft_of(spent)
    answer = send(spent.member, f"{path}/unbilled")
    assert answer.status_code == 422
    assert "2 time entries have no hourly rate, so nothing was added." in text_of(answer.text)
    assert f'href="{spent.base}/time/{lacking[0]}"' in answer.text
    assert lines_of(spent, path) == [("item", 1)]
    answer = spent.member.fill(f"{spent.base}/billing/new", bill_to="Acme", currency="USD", unbilled="1")
    assert answer.status_code == 422
    assert "2 time entries have no hourly rate" in text_of(answer.text)


def test_a_new_invoice_includes_unbilled_time_on_request(spent: Studio) -> None:
    form = f"{spent.base}/billing/new"
    assert OFFER in text_of(page_of(spent.member, form))
    answer = spent.member.fill(form, bill_to="Acme", currency="USD")
    assert lines_of(spent, answer.headers["location"]) == []
    answer = spent.member.fill(form, bill_to="Acme", currency="USD", unbilled="1")
    assert lines_of(spent, answer.headers["location"]) == [("time", 2.5), ("time", 0.833333)]
    assert "2 time entries added." in page_of(spent.member, answer.headers["location"])
    assert "Add unbilled time" not in page_of(spent.member, form)


def test_concurrent_drafts_do_not_share_an_entry(spent: Studio) -> None:
    paths = [draft_of(spent), draft_of(spent)]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda path, by: send(by, f"{path}/unbilled"), paths, (spent.member, spent.owner)))
    assert [each.status_code for each in answers] == [303, 303], [each.text for each in answers]
    assert sorted(len(lines_of(spent, each)) for each in paths) == [1, 3]


def test_an_invoice_has_a_maximum_number_of_entries(spent: Studio, server: Server) -> None:
    server.run(partial(copy_time, timesheet_id=spend(spent, spent.add_task(spent.add_column("Later"), "Short"), 8, 1)))
    path = draft_of(spent, group_by="task")
    assert send(spent.member, f"{path}/unbilled").status_code == 303
    assert "1000 time entries added." in page_of(spent.member, path)
    answer = send(spent.member, f"{path}/unbilled")
    assert answer.status_code == 409
    assert "An invoice can have at most 1000 time entries. Create another invoice for the rest." in text_of(answer.text)


def nearly_full(studio: Studio, *, free: int) -> str:
    """Create a draft that has room for `free` more characters and return its address."""
    items = [{"description": "w" * 4_000, "qty": 1, "unit_price": 1}] * 15
    made = studio.call(
        "POST",
        f"{studio.project}/invoices",
        invoice_items=items,
        payment_terms="t" * (PRINTED_MAX_CHARS - 60_000 - free),
        currency="USD",
    )
    return f"{studio.base}/billing/{made['invoice']['id']}"


def test_entries_that_do_not_fit_go_onto_another_invoice(studio: Studio) -> None:
    """Each entry is on exactly one invoice."""
    task = studio.add_task(studio.add_column("Doing"), "Wordy")
    spent = [spend(studio, task, day, 1, notes="n" * 250, billable_rate=60) for day in range(1, 21)]
    path = nearly_full(studio, free=2_000)
    assert send(studio.member, f"{path}/unbilled").status_code == 303
    page = page_of(studio.member, path)
    assert "7 time entries added." in page
    assert "This invoice is full. Create another one for the remaining 0:13." in page
    assert "Add unbilled time (0:13)" in text_of(page)
    first = entries_of(studio, path)
    assert first == spent[:7]

    again = send(studio.member, f"{path}/unbilled")
    assert again.status_code == 422
    assert "create several invoices" in text_of(again.text)
    assert entries_of(studio, path) == first

    made = studio.member.fill(f"{studio.base}/billing/new", bill_to="Acme", currency="USD", unbilled="1")
    assert entries_of(studio, made.headers["location"]) == spent[7:]
    assert "13 time entries added." in page_of(studio.member, made.headers["location"])
    assert "Add unbilled time" not in page_of(studio.member, path)


def test_new_invoices_include_only_what_can_be_printed(studio: Studio, server: Server) -> None:
    entry = spend(studio, studio.add_task(studio.add_column("Doing"), "Wordy"), 8, 1, notes="n" * 250)
    server.run(partial(copy_time, timesheet_id=entry, number=199))
    given = {"bill_to": "Acme", "currency": "USD", "unbilled": "1", "payment_terms": "t" * 60_000}
    paths = []
    for _ in range(2):
        made = studio.member.fill(f"{studio.base}/billing/new", **given)
        assert made.status_code == 303, made.text
        paths.append(made.headers["location"])
    first, second = (entries_of(studio, each) for each in paths)
    assert 100 < len(first) < 200
    assert len({*first, *second}) == len(first) + len(second) == 200
    assert f"{len(second)} time entries added." in page_of(studio.member, paths[1])


def test_all_entries_without_a_rate_are_counted(studio: Studio, server: Server) -> None:
    entry = spend(studio, studio.add_task(studio.add_column("Doing"), "Many"), 8, 1)
    server.run(partial(copy_time, timesheet_id=entry, number=149, rate=None))
    answer = send(studio.member, f"{draft_of(studio)}/unbilled")
    assert answer.status_code == 422
    assert "150 time entries have no hourly rate, so nothing was added." in text_of(answer.text)


def entries_of(studio: Studio, path: str) -> list[str]:
    """Return the IDs of the time entries on an invoice."""
    invoice = studio.call("GET", f"/invoices/{path.rpartition('/')[2]}")["invoice"]
    return [each for line in invoice["invoice_items"] for each in line.get("timesheet_ids", [])]


async def copy_time(
    services: Services, *, timesheet_id: str, number: int = TIMESHEETS_MAX, rate: int | None = 0
) -> None:
    """Copy the time entry `number` times, by default more often than fits on an invoice."""
    async with services.database.transaction() as tx:
        row = await tx.fetch_one(
            sa.select(timesheets).where(timesheets.c.id == sa.bindparam("id")), {"id": timesheet_id}
        )
        assert row is not None
        for _ in range(number):
            await tx.execute(_insert, {**dict(row), "id": new_id("tim"), "billable_rate_minor": rate})
        await tx.execute(_set_rate, {"timesheet_id": timesheet_id, "rate": rate})


def test_readers_clients_and_strangers_cannot_add_time(spent: Studio, server: Server) -> None:
    path = draft_of(spent)
    with signed_in(server, add_in(server, spent.team.world, "read")) as reader:
        assert "Add unbilled time" not in page_of(reader, path)
        assert send(reader, f"{path}/unbilled").status_code == 403
    assert send(spent.client, f"{path}/unbilled").status_code == 404
    with open_studio(server) as other:
        assert send(other.owner, f"{path}/unbilled").status_code == 404
        assert send(other.owner, f"{other.base}/billing/{path.rpartition('/')[2]}/unbilled").status_code == 404
    assert lines_of(spent, path) == [("item", 1)]
    assert send(spent.owner, f"{path}/send").status_code == 303
    assert "Add unbilled time" not in page_of(spent.owner, path)
    assert send(spent.client, f"{path}/unbilled").status_code == 404
    answer = send(spent.owner, f"{path}/unbilled")
    assert (answer.status_code, "Its parties, line items" in text_of(answer.text)) == (409, True)
