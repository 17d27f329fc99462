"""Dates in the time zone of the billing settings, which is fixed once an invoice is sent."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import sqlalchemy as sa
from pypdf import PdfReader
from structlog.testing import capture_logs

from tests.harness.world import must
from tests.work.scene import Scene
from tests.work.shop import BASE, Shop, millis
from tests.work.studio import Studio
from workhook.core.zones import zone_or_utc
from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.identity.queries import find_account
from workhook.identity.schemas import Actor
from workhook.storage.metadata import bigint_param
from workhook.work.kernel.billing_settings import account_billing
from workhook.work.money.credit_notes import actions as credit_notes
from workhook.work.money.credit_notes.schemas import CreditNoteCreate
from workhook.work.money.invoices import actions
from workhook.work.money.invoices.paper import DocumentLocale
from workhook.work.money.payments import actions as payments
from workhook.work.money.payments.schemas import PaymentCreate

_NAMES = {"udt": "urn:un:unece:uncefact:data:standard:UnqualifiedDataType:100"}
_QDT = "urn:un:unece:uncefact:data:standard:QualifiedDataType:100"
AUCKLAND, ANGELES, BERLIN = "Pacific/Auckland", "America/Los_Angeles", "Europe/Berlin"
_of_other_server = (
    sa.update(account_billing)
    .where(account_billing.c.account_id == bigint_param("account"))
    .values(timezone=sa.bindparam("zone"))
)
Step = Callable[[Write], Awaitable[object]]


class Desk:
    """A studio with the data an e-invoice requires, and control over the clock of its invoices."""

    def __init__(self, studio: Studio) -> None:
        self.studio, self.owner = studio, studio.owner
        self.account = f"/organizations/{studio.world.organization}/billing"
        seller = {"legal_name": "Acme", "address": "Lindenstr. 1", "vat_id": "DE123456789", "country": "DE"}
        self.owner.patch(self.account, json={**seller, "number_format": "{year}-{number}", "payment_days": 14})
        buyer = {"name": "Client AG", "address": "Ring 2", "country": "AT", "vat_id": "ATU12345678"}
        self.owner.patch(f"{studio.project}/billing", json={"buyer": buyer})

    def settle(self, zone: str | None) -> None:
        self.owner.patch(self.account, json={"timezone": zone})

    def draw(self, **more: Any) -> str:
        return str(self.studio.invoice(**more)["id"])

    def at(self, time: str, step: Step) -> None:
        """Run `step` as the owner at `time`, such as `2030-12-31T11:30`, in UTC."""

        async def run(services: Services) -> None:
            user = must(await find_account(services.database, self.studio.world.owner))
            actor = Actor(user, token_id=0, token_kind="classic", scopes=frozenset())
            async with services.database.transaction() as tx:
                await step(Write(tx, actor, BASE, moment=millis(time)))

        self.studio.server.run(run)

    def send(self, time: str, **more: Any) -> str:
        """Return an invoice issued at `time`."""
        invoice_id = self.draw(**more)
        self.at(time, lambda write: actions.send_invoice(write, invoice_id))
        return invoice_id

    def record(self, invoice_id: str) -> Any:
        return self.owner.get(f"/invoices/{invoice_id}")["invoice"]

    def pdf(self, invoice_id: str, kind: str = "invoices") -> bytes:
        answer = self.owner.call("GET", f"/{kind}/{invoice_id}/pdf")
        assert answer.status_code == 200, answer.text
        return answer.content

    def xml(self, invoice_id: str, kind: str = "invoices") -> bytes:
        answer = self.owner.call("GET", f"/{kind}/{invoice_id}/xml")
        assert answer.status_code == 200, answer.text
        return answer.content


def words_of(pdf: bytes) -> str:
    return " ".join(" ".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages).split())


def days_of(xml: bytes) -> list[str]:
    """Return the dates in document order: of issue, due, and of the invoice that a credit note refers to."""
    names = {f"{{{_NAMES['udt']}}}DateTimeString", f"{{{_QDT}}}DateTimeString"}
    return [each.text or "" for each in ET.fromstring(xml).iter() if each.tag in names]  # produced by this project


@pytest.fixture
def desk(studio: Studio) -> Desk:
    return Desk(studio)


@pytest.mark.parametrize(
    ("zone", "at", "number", "issued", "due"),
    [
        (AUCKLAND, "2030-12-31T11:30", "2031-1", "1 Jan 2031", "2031-01-15"),
        (AUCKLAND, "2030-12-31T10:30", "2030-1", "31 Dec 2030", "2031-01-14"),
        (ANGELES, "2031-01-01T07:30", "2030-1", "31 Dec 2030", "2031-01-14"),
        (ANGELES, "2031-01-01T08:30", "2031-1", "1 Jan 2031", "2031-01-15"),
        (None, "2030-12-31T23:30", "2030-1", "31 Dec 2030", "2031-01-14"),
    ],
)
def test_the_year_changes_in_the_time_zone_of_the_studio(
    desk: Desk, zone: str | None, at: str, number: str, issued: str, due: str
) -> None:
    desk.settle(zone)
    sent = desk.send(at)
    record = desk.record(sent)
    assert (record["invoice_number"], record["issued"]) == (number, f"{at}:00.000Z")
    assert (record["due"], record["seller"]["timezone"]) == (f"{due}T00:00:00.000Z", zone)
    words = words_of(desk.pdf(sent))
    day = f"{int(due[-2:])} Jan 2031"
    assert f"ISSUED {issued} DUE DATE {day}" in words, words
    year, month = number[:4], "01" if issued.startswith("1 ") else "12"
    assert days_of(desk.xml(sent)) == [f"{year}{month}{issued.split()[0]:0>2}", due.replace("-", "")]


def test_each_year_in_the_studios_time_zone_has_its_own_numbers(desk: Desk) -> None:
    desk.settle(AUCKLAND)
    sent = [desk.send(at) for at in ("2030-12-31T10:59", "2030-12-31T11:00", "2030-12-31T10:58", "2031-01-01T12:00")]
    assert [desk.record(each)["invoice_number"] for each in sent] == ["2030-1", "2031-1", "2030-2", "2031-2"]


def test_a_sent_invoice_is_unaffected_by_a_new_time_zone(desk: Desk) -> None:
    desk.settle(AUCKLAND)
    sent, draft = desk.send("2030-12-31T11:30"), desk.draw(due="2031-06-30T20:00:00Z")
    before = (desk.record(sent), desk.pdf(sent), desk.xml(sent))
    assert "DUE DATE 1 Jul 2031" in words_of(desk.pdf(draft))
    desk.settle(ANGELES)
    assert (desk.record(sent), desk.pdf(sent), desk.xml(sent)) == before
    assert "DUE DATE 30 Jun 2031" in words_of(desk.pdf(draft))
    desk.at("2031-06-30T12:30", lambda write: payments.create_payment(write, sent, PaymentCreate()))
    assert "PAID 1 Jul 2031" in words_of(desk.pdf(sent))


@pytest.mark.parametrize("zone", [AUCKLAND, ANGELES, None])
def test_a_bare_date_is_that_date_in_every_time_zone(desk: Desk, zone: str | None) -> None:
    desk.settle(zone)
    sent = desk.send("2030-06-15T12:00", due="2030-12-24")
    paid = PaymentCreate(paid_at=millis("2030-06-14T00:00"))
    desk.at("2030-06-15T12:00", lambda write: payments.create_payment(write, sent, paid))
    assert days_of(desk.xml(sent))[1] == "20301224"
    words = words_of(desk.pdf(sent))
    assert "DUE DATE 24 Dec 2030" in words
    assert "PAID 14 Jun 2030" in words


@pytest.mark.parametrize(
    ("zone", "at", "day"),
    [(AUCKLAND, "2030-12-31T11:30", "1 Jan 2031"), (ANGELES, "2031-01-01T07:30", "31 Dec 2030")],
)
def test_a_credit_note_has_the_time_zone_of_its_invoice(desk: Desk, zone: str, at: str, day: str) -> None:
    desk.settle(zone)
    sent = desk.send("2030-06-15T12:00")
    desk.settle(None)
    desk.at(at, lambda write: credit_notes.create_credit_note(write, sent, CreditNoteCreate("Late")))
    [note] = desk.owner.get(f"/invoices/{sent}/credit_notes")["credit_notes"]
    assert (note["issued"], note["seller"]["timezone"]) == (f"{at}:00.000Z", zone)
    assert f"ISSUED {day}" in words_of(desk.pdf(note["id"], "credit_notes"))
    assert days_of(desk.xml(note["id"], "credit_notes"))[0] == ("20310101" if zone == AUCKLAND else "20301231")


@pytest.mark.parametrize(
    ("zone", "start", "day"),
    [
        # Half past midnight: in winter, before and after the clock changes, and in the hour that occurs twice.
        (BERLIN, "2026-01-31T23:30:00Z", "2026-02-01"),
        (BERLIN, "2026-03-28T23:30:00Z", "2026-03-29"),
        (BERLIN, "2026-03-29T21:30:00Z", "2026-03-29"),
        (BERLIN, "2026-03-29T22:30:00Z", "2026-03-30"),
        (BERLIN, "2026-10-24T22:30:00Z", "2026-10-25"),
        (BERLIN, "2026-10-25T22:30:00Z", "2026-10-25"),
        (ANGELES, "2026-01-01T07:59:59Z", "2025-12-31"),
        (AUCKLAND, "2025-12-31T11:00:00Z", "2026-01-01"),
        (None, "2026-01-31T23:30:00Z", "2026-01-31"),
    ],
)
def test_time_is_on_the_day_it_was_worked(desk: Desk, scene: Scene, zone: str | None, start: str, day: str) -> None:
    desk.settle(zone)
    spent = scene.timesheet(start_time=start, duration=20 * 60_000, billable_rate=80)
    draft, written = desk.draw(invoice_items=[], timesheet_ids=[spent]), DocumentLocale("en").days((day, day))
    assert [each["description"] for each in desk.record(draft)["invoice_items"]] == [f"Task ({written})"]
    desk.owner.patch(f"/invoices/{draft}", json={"group_by": "day"})
    assert [each["description"] for each in desk.record(draft)["invoice_items"]] == [f"{written}: Task"]


def test_time_is_grouped_by_the_studios_days(desk: Desk, scene: Scene) -> None:
    desk.settle(BERLIN)
    starts = ["2026-10-24T22:30:00Z", "2026-10-25T22:30:00Z", "2026-10-25T23:30:00Z"]
    spent = [scene.timesheet(start_time=each, duration=20 * 60_000, billable_rate=80) for each in starts]
    draft = desk.draw(invoice_items=[], timesheet_ids=spent, group_by="day")
    lines = desk.record(draft)["invoice_items"]
    assert [(each["description"], len(each["timesheet_ids"])) for each in lines] == [
        ("25 Oct 2026: Task", 2),
        ("26 Oct 2026: Task", 1),
    ]


def test_a_subscription_period_has_the_studios_dates(desk: Desk, shop: Shop) -> None:
    desk.settle(AUCKLAND)
    shop.buy("2031-01-31T20:00")
    [sent] = desk.owner.get(f"{desk.studio.project}/invoices")["invoices"]
    assert sent["invoice_number"] == "2031-1"
    assert sent["recurring_invoice_items"][0]["description"] == "Design retainer, 1 Feb 2031 \u2013 28 Feb 2031"


def test_periods_follow_the_calendar_of_the_studio(desk: Desk, shop: Shop) -> None:
    desk.settle(AUCKLAND)
    checkout = shop.buy("2031-01-30T20:00")  # the 31st in Auckland
    shop.schedule("2031-05-02T00:00")
    sent = desk.owner.get(f"{desk.studio.project}/invoices")["invoices"]
    lines = [each["recurring_invoice_items"][0] for each in sent]
    assert [(each["service_from"], each["service_to"]) for each in lines] == [
        ("2031-01-31", "2031-02-27"),
        ("2031-02-28", "2031-03-30"),
        ("2031-03-31", "2031-04-29"),
        ("2031-04-30", "2031-05-30"),
    ]
    assert shop.checkout(checkout)["period_end"] == "2031-05-30T21:00:00.000Z"


def test_a_person_with_their_own_projects_has_a_time_zone(studio: Studio) -> None:
    own = f"/organizations/{studio.owner.login}/billing"
    assert studio.owner.get(own)["billing"]["timezone"] == "UTC"
    assert studio.owner.patch(own, json={"timezone": " Asia/Kathmandu "})["billing"]["timezone"] == "Asia/Kathmandu"
    assert studio.owner.patch(own, json={"timezone": None})["billing"]["timezone"] == "UTC"


def test_a_time_zone_must_name_a_place(studio: Studio) -> None:
    """Other names may mean different zones on different servers."""
    own = f"/organizations/{studio.owner.login}/billing"
    for zone in ("localtime", "Factory", "EST5EDT", "CET", "GMT", "Europe"):
        assert studio.owner.faults("PATCH", own, json={"timezone": zone}) == {"timezone": "invalid"}, zone


def test_no_invoice_is_sent_in_a_time_zone_unknown_to_the_server(desk: Desk) -> None:
    """This can happen after a move to a server with older time zone data."""
    desk.settle(BERLIN)
    draft = desk.draw()

    async def forget(services: Services) -> None:
        account = must(await find_account(services.database, desk.studio.world.organization))
        async with services.database.transaction() as tx:
            await tx.execute(_of_other_server, {"account": account.id, "zone": "Europe/Atlantis"})

    desk.studio.server.run(forget)
    assert "DRAFT" in words_of(desk.pdf(draft)).upper()
    refused = desk.owner.refused(422, "POST", f"/invoices/{draft}/send")
    [fault] = refused["errors"]
    assert (fault["field"], fault["code"]) == ("seller.timezone", "invalid")
    remedy = f"unknown time zone Europe/Atlantis; choose another time zone in {desk.account} first"
    assert remedy in fault["message"]
    assert desk.record(draft)["status"] == "draft"
    desk.settle(AUCKLAND)
    assert desk.owner.post(f"/invoices/{draft}/send")["invoice"]["seller"]["timezone"] == AUCKLAND


def test_an_unknown_time_zone_is_logged_once() -> None:
    with capture_logs() as logged:
        days = {zone_or_utc(each) for each in ("Mars/Olympus", "Mars/Olympus", BERLIN, None)}
    assert len(days) == 2
    assert logged == [{"event": "time_zone_unknown", "log_level": "warning", "timezone": "Mars/Olympus"}]
