"""Rounding of invoiced time: the report and the draft's page show both the tracked and the billed time."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from tests.web.studio import Studio, page_of, send, text_of
from tests.web.test_time_report import SPAN, spend

MINUTE_MS = 60_000


def settle(studio: Studio, **billing: Any) -> None:
    studio.call("PATCH", f"/organizations/{studio.team.world.organization}/billing", **billing)


@pytest.fixture
def spent(studio: Studio) -> Studio:
    """Return a studio with entries of 2:30 and 0:50 at 80.50 EUR, rounded up to a quarter of an hour."""
    settle(studio, currency="EUR", hourly_rate=80.5, billable=True, round_minutes=15, round_mode="up")
    task = studio.add_task(studio.add_column("Doing"), "Photos")
    spend(studio, task, "2026-01-05T09:00:00Z", 150 * MINUTE_MS, billable=True)
    spend(studio, task, "2026-01-06T09:00:00Z", 50 * MINUTE_MS, billable=True)
    return studio


def report(studio: Studio) -> str:
    return text_of(page_of(studio.member, f"{studio.base}/time/report", **SPAN))


def draft(studio: Studio, **more: str) -> str:
    """Create a draft from the report and return its address."""
    made = send(studio.member, f"{studio.base}/time/report/invoice", **SPAN, user="", timezone="UTC", **more)
    assert made.status_code == 303, made.text
    return str(made.headers["location"])


def test_the_report_announces_the_rounded_invoice(spent: Studio) -> None:
    text = report(spent)
    assert "Unbilled time: 3:20 (268.33 EUR)." in text
    assert "Each time entry is rounded up to the next 15 minutes." in text
    assert "The invoice would include 3:30 for 281.75 EUR." in text
    page = text_of(page_of(spent.member, draft(spent)))
    assert "Total: 281.75 EUR" in page
    assert "Each time entry is rounded up to the next 15 minutes." in page
    assert "Tracked: 3:20, billed: 3:30." in page


def test_rounding_is_explained_in_german(spent: Studio) -> None:
    spent.member.client.cookies.set("workhook_language", "de")
    settle(spent, round_mode="nearest")
    text = report(spent)
    assert "kaufmännisch auf volle 15 Minuten gerundet." in text
    assert "Auf die Rechnung kämen 3:15 (261,63 EUR)." in text
    assert "Erfasst: 3:20, abgerechnet: 3:15." in text_of(page_of(spent.member, draft(spent)))


def test_without_rounding_nothing_is_explained(spent: Studio) -> None:
    settle(spent, round_minutes=0)
    assert "rounded" not in report(spent)
    assert "rounded" not in text_of(page_of(spent.member, draft(spent)))


def test_a_draft_keeps_the_rounding_in_effect_at_its_creation(spent: Studio) -> None:
    address = draft(spent)
    for minutes in (10, 0):
        settle(spent, round_minutes=minutes)
        page = text_of(page_of(spent.member, address))
        assert "Time was rounded according to the billing settings in effect when it was added." in page
        assert "Tracked: 3:20, billed: 3:30." in page
    settle(spent, round_minutes=30)
    assert send(spent.member, f"{address}/grouping", group_by="task").status_code == 303
    page = text_of(page_of(spent.member, address))
    assert "rounded up to the next 30 minutes. Tracked: 3:20, billed: 3:30." in page


def test_the_preview_excludes_running_timers_and_other_users(spent: Studio) -> None:
    task = spent.add_task(spent.add_column("Else"), "Else")
    spend(spent, task, "2026-01-06T12:00:00Z", 10 * MINUTE_MS, by=spent.team.member, billable=True)
    page = page_of(spent.owner, f"{spent.base}/time/report", **SPAN, user=spent.team.member.login)
    assert "The invoice would include 0:15 for 20.13 EUR." in text_of(page)
    page = page_of(spent.owner, f"{spent.base}/time/report", **SPAN, invoiced="true")
    assert "would include" not in text_of(page)


@pytest.mark.parametrize("seed", range(4))
def test_the_preview_matches_the_draft(studio: Studio, seed: int) -> None:
    """For random entries, rates, rounding and currencies."""
    chance = random.Random(seed)
    currency = ("EUR", "USD", "JPY", "KWD")[seed]
    settle(studio, currency=currency, round_minutes=chance.choice([1, 5, 6, 10, 15, 30]), billable=True)
    settle(studio, round_mode=chance.choice(["up", "nearest"]), hourly_rate=chance.choice([80, 7, 123]))
    task = studio.add_task(studio.add_column("Doing"), "Photos")
    for _ in range(12):
        rate: dict[str, Any] = {"billable_rate": chance.choice([55, 1, 999])} if chance.random() < 0.5 else {}
        ms = chance.randrange(1, 5 * 3_600_000)
        spend(studio, task, f"2026-01-0{chance.randrange(5, 9)}T09:00:00Z", ms, billable=True, **rate)
    found = re.search(r"would include (\S+) for (\S+) " + currency, report(studio))
    assert found is not None
    address = draft(studio)
    invoice = studio.call("GET", f"/invoices/{address.split('/')[-1].partition('#')[0]}")["invoice"]
    assert float(found[2].replace(",", "")) == invoice["amount"]
    assert f"billed: {found[1]}." in text_of(page_of(studio.member, address))
