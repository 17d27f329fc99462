"""Consistency of the books: random histories checked against a model in fractions, and fifty concurrent requests."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Any

import pytest

from tests.harness.depth import DEEP, deep
from tests.work.studio import Studio

UNITS = {"EUR": Fraction(1, 100), "JPY": Fraction(1), "BHD": Fraction(1, 1000)}
"""The smallest payable amount of a currency."""


def half_up(value: Fraction, unit: Fraction) -> Fraction:
    """Round half up to a multiple of `unit`."""
    return floor(value / unit + Fraction(1, 2)) * unit


def exact(number: float) -> Fraction:
    """Convert a JSON number with at most six decimals."""
    return Fraction(str(number))


@dataclass
class Line:
    unit: Fraction
    qty: str
    price: str
    discount: str | None = None  # percent
    percent: str | None = None  # of tax, if it differs from the invoice's

    @property
    def amount(self) -> Fraction:
        gross = half_up(Fraction(self.qty) * Fraction(self.price), self.unit)
        return gross - half_up(gross * Fraction(self.discount or 0) / 100, self.unit)

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"description": "Work", "qty": float(self.qty), "unit_price": float(self.price)}
        body |= {} if self.discount is None else {"discount": float(self.discount)}
        return body | ({} if self.percent is None else {"tax": float(self.percent)})


def total_of(lines: list[Line], percent: str, discount: str | None = None) -> Fraction:
    """Return the total including tax.

    The discount is split over the rates with an error below one unit each. The rates that were rounded down most get
    the remaining units first.
    """
    unit = lines[0].unit
    nets: dict[Fraction, Fraction] = {}
    for each in lines:
        rate = Fraction(each.percent or percent)
        nets[rate] = nets.get(rate, Fraction(0)) + each.amount
    whole = sum(nets.values(), Fraction(0))
    off = half_up(whole * Fraction(discount or 0) / 100, unit)
    exact = {rate: off * net / whole if whole else Fraction(0) for rate, net in nets.items()}
    shares = {rate: floor(share / unit) * unit for rate, share in exact.items()}
    for rate in sorted(nets, key=lambda rate: (shares[rate] - exact[rate], -rate)):
        if sum(shares.values()) < off:
            shares[rate] += unit
    bases = {rate: net - shares[rate] for rate, net in nets.items()}
    return sum((base + half_up(base * rate / 100, unit) for rate, base in bases.items()), Fraction(0))


Sums = tuple[Fraction, Fraction]


def by_rate(rows: Any) -> dict[Fraction, Sums]:
    """Return the base and tax of each rate in a record."""
    return {exact(each["percent"]): (exact(each["base"]), exact(each["tax"])) for each in rows}


@dataclass
class Model:
    """A sent invoice as kept with pencil and paper: it stores no sums, only what happened.

    `billed` contains the base and the tax of each rate.
    """

    lines: list[Line]
    percent: str
    discount: str | None = None
    billed: dict[Fraction, Sums] = field(default_factory=dict)
    payments: dict[str, Fraction] = field(default_factory=dict)
    refunds: list[tuple[str, Fraction]] = field(default_factory=list)
    notes: list[dict[Fraction, Sums]] = field(default_factory=list)
    is_void: bool = False

    @property
    def total(self) -> Fraction:
        return total_of(self.lines, self.percent, self.discount)

    @property
    def paid(self) -> Fraction:
        return sum(self.payments.values(), Fraction(0)) - sum((each for _, each in self.refunds), Fraction(0))

    @property
    def credited(self) -> Fraction:
        return sum((base + tax for each in self.notes for base, tax in each.values()), Fraction(0))

    def left_at(self, rate: Fraction) -> Sums:
        """Return the base and the tax that are not credited yet."""
        base, tax = self.billed.get(rate, (Fraction(0), Fraction(0)))
        for note in self.notes:
            noted = note.get(rate, (Fraction(0), Fraction(0)))
            base, tax = base - noted[0], tax - noted[1]
        return base, tax

    @property
    def due(self) -> Fraction:
        return max(self.total - self.credited - self.paid, Fraction(0))

    def left_of(self, payment: str) -> Fraction:
        return self.payments[payment] - sum((each for of, each in self.refunds if of == payment), Fraction(0))

    def shown(self) -> dict[str, Any]:
        """Return the expected fields of the invoice."""
        if self.is_void:
            return {"status": "void", "amount_paid": 0, "amount_credited": 0, "amount_due": 0, "to_refund": 0}
        if self.notes and self.credited == self.total:
            status = "credited"
        elif self.due == 0:
            status = "paid"
        else:
            status = "partially_paid" if self.paid else "sent"
        return {
            "status": status,
            "amount_paid": self.paid,
            "amount_credited": self.credited,
            "amount_due": self.due,
            "to_refund": max(self.paid + self.credited - self.total, Fraction(0)),
        }


class History:
    """Random operations on one invoice, each checked against the model."""

    def __init__(self, studio: Studio, chance: random.Random, currency: str) -> None:
        self.studio, self.chance, self.unit = studio, chance, UNITS[currency]
        discount = chance.choice((None, "10", "33.3333"))
        self.model = Model([self._line() for _ in range(chance.randint(1, 5))], chance.choice(_PERCENTS), discount)
        body = {"invoice_items": [each.body() for each in self.model.lines], "tax": float(self.model.percent)}
        body["currency"] = currency
        body |= {} if discount is None else {"discount": float(discount)}
        record = studio.owner.post(f"{studio.project}/invoices", json=body)["invoice"]
        self.path = f"/invoices/{record['id']}"
        self.model.billed = by_rate(record["taxes"])
        assert exact(record["amount_due"]) == exact(record["total"]) == self.model.total
        studio.owner.post(f"{self.path}/send")
        self.check()

    def _line(self) -> Line:
        qty = f"{self.chance.randint(1, 5_000_000)}e-{self.chance.choice((0, 2, 6))}"
        price = f"{float(self.chance.randint(0, 20_000) * self.unit):.3f}"
        own = self.chance.choice((None, None, *_PERCENTS))
        return Line(self.unit, f"{float(qty):f}", price, self.chance.choice((None, None, "12.5")), own)

    def step(self) -> None:
        notes = (self.credit, self.credit_rate, self.credit_lines, self.credit_line_of_invoice, self.credit_rest)
        self.chance.choice((self.pay, self.pay, self.refund, self.refund, *notes, self.void))()
        self.check()

    def check(self) -> None:
        found, wanted = self.studio.owner.get(self.path)["invoice"], self.model.shown()
        shown = {name: found[name] if name == "status" else exact(found[name]) for name in wanted}
        assert shown == wanted
        if not self.model.is_void:
            sums = {name: exact(found[name]) for name in ("total", "amount_paid", "amount_credited", "amount_due")}
            assert sums["total"] + exact(found["to_refund"]) == sum(sums.values()) - sums["total"]

    def _post(self, path: str, body: dict[str, Any], *, fits: bool) -> Any:
        """Return the response, or None if `fits` is false, in which case the request must be refused."""
        answer = self.studio.owner.call("POST", path, json=body)
        assert answer.status_code == (200 if fits else answer.status_code), answer.text
        if not fits:
            assert answer.status_code in (409, 422), answer.text
            return None
        return answer.json()

    def _some(self, most: Fraction) -> Fraction:
        """Return an amount that is usually at most `most`, sometimes exactly that and sometimes more."""
        units = int(most / self.unit)
        return self.chance.choice((units, self.chance.randint(1, max(units, 1)), units + 1)) * self.unit

    def pay(self) -> None:
        amount = self._some(self.model.due)
        fits = 0 < amount <= self.model.due and not self.model.is_void
        if made := self._post(f"{self.path}/payments", {"amount": float(amount)}, fits=fits):
            self.model.payments[made["payment"]["id"]] = amount

    def refund(self) -> None:
        if not self.model.payments:
            return
        payment = self.chance.choice(list(self.model.payments))
        amount = self._some(self.model.left_of(payment))
        fits = 0 < amount <= self.model.left_of(payment)
        if self._post(f"/payments/{payment}/refund", {"amount": float(amount)}, fits=fits):
            self.model.refunds.append((payment, amount))

    def credit(self) -> None:
        left = self.model.total - self.model.credited
        total = self._some(left)
        fits = 0 < total <= left and not self.model.is_void
        if note := self._credit({"total": float(total)}, fits=fits):
            assert exact(note["total"]) == total

    def credit_rate(self) -> None:
        rate = self.chance.choice((*self.model.billed, Fraction(3)))
        left = sum(self.model.left_at(rate), Fraction(0))
        total = self._some(left)
        fits = 0 < total <= left and not self.model.is_void
        if note := self._credit({"total": float(total), "tax": float(rate)}, fits=fits):
            assert (exact(note["total"]), set(by_rate(note["taxes"]))) == (total, {rate})

    def credit_rest(self) -> None:
        if self.chance.random() < 0.8:
            return
        rate = self.chance.choice((None, *self.model.billed))
        left = self.model.total - self.model.credited if rate is None else sum(self.model.left_at(rate), Fraction(0))
        body = {} if rate is None else {"tax": float(rate)}
        if note := self._credit(body, fits=left > 0 and not self.model.is_void):
            assert exact(note["total"]) == left

    def credit_lines(self) -> None:
        self._credit_lines([self._line() for _ in range(self.chance.randint(1, 2))])

    def credit_line_of_invoice(self) -> None:
        self._credit_lines([self.chance.choice(self.model.lines)])

    def _credit_lines(self, lines: list[Line]) -> None:
        bases: dict[Fraction | None, Fraction] = {}
        for each in lines:
            rate = self._rate_of(each)
            bases[rate] = bases.get(rate, Fraction(0)) + each.amount
        fits = None not in bases and any(bases.values()) and not self.model.is_void
        fits = fits and all(base <= self.model.left_at(rate)[0] for rate, base in bases.items() if rate is not None)
        fits = fits and all(rate in self.model.billed for rate in bases)
        if note := self._credit({"invoice_items": [each.body() for each in lines]}, fits=fits):
            assert {rate: base for rate, (base, _) in by_rate(note["taxes"]).items()} == bases

    def _rate_of(self, line: Line) -> Fraction | None:
        """Return the line's tax rate, or None if it is ambiguous."""
        if line.percent is not None:
            return Fraction(line.percent)
        if len(self.model.billed) == 1:
            return next(iter(self.model.billed))
        return Fraction(self.model.percent) if Fraction(self.model.percent) in self.model.billed else None

    def _credit(self, body: dict[str, Any], *, fits: bool) -> Any:
        """Create a credit note and check the remaining amounts.

        No rate is credited beyond its billed amount, and a fully credited invoice has nothing left.
        """
        made = self._post(f"{self.path}/credit_notes", {**body, "reason": "x"}, fits=fits)
        if made is None:
            return None
        note = made["credit_note"]
        self.model.notes.append(by_rate(note["taxes"]))
        assert len(self.model.notes[-1]) == len(note["taxes"])
        assert sum(base + tax for base, tax in self.model.notes[-1].values()) == exact(note["total"])
        for rate, (base, tax) in self.model.notes[-1].items():
            assert base >= 0 <= tax
            assert abs(tax - base * rate / 100) <= 2 * self.unit
        lefts = {rate: self.model.left_at(rate) for rate in self.model.billed}
        for rate, (base, tax) in lefts.items():
            assert base >= 0 <= tax
            assert abs(tax - base * rate / 100) <= 2 * self.unit
        assert (self.model.credited == self.model.total) == (not any(base or tax for base, tax in lefts.values()))
        return note

    def void(self) -> None:
        if self.chance.random() < 0.9:
            return
        fits = self.model.is_void or (not self.model.notes and self.model.paid == 0 and self.model.due > 0)
        if self._post(f"{self.path}/void", {}, fits=fits):
            self.model.is_void = True


_PERCENTS = ("0", "19", "20", "7.7", "25.5", "8.1234", "100")


@pytest.mark.parametrize("currency", UNITS)
@pytest.mark.parametrize("seed", range(deep(2, 20)))
def test_random_histories_match_the_model(studio: Studio, seed: int, currency: str) -> None:
    chance = random.Random(random.SystemRandom().getrandbits(32) if DEEP else seed)
    state = chance.getstate()
    try:
        for _ in range(2):
            history = History(studio, chance, currency)
            for _ in range(25):
                history.step()
    except AssertionError as error:
        error.add_note(f"seed {seed}, {hash(state)}")
        raise


def run_concurrently(works: list[Callable[[], Any]]) -> list[Any]:
    with ThreadPoolExecutor(len(works)) as threads:
        return [each.result() for each in [threads.submit(work) for work in works]]


def test_fifty_concurrent_requests_never_overbook_an_invoice(studio: Studio) -> None:
    items = [{"description": "Work", "qty": 1, "unit_price": 100}]
    body = {"invoice_items": items, "tax": 20}
    path = f"/invoices/{studio.owner.post(f'{studio.project}/invoices', json=body)['invoice']['id']}"
    studio.owner.post(f"{path}/send")
    first = studio.owner.post(f"{path}/payments", json={"amount": 20})["payment"]["id"]
    studio.happened()

    def ask(where: str, body: dict[str, Any]) -> Callable[[], int]:
        return lambda: studio.owner.call("POST", where, json=body).status_code

    payments = [ask(f"{path}/payments", {"amount": 7})] * 20
    refunds = [ask(f"/payments/{first}/refund", {"amount": 3})] * 15
    notes = [ask(f"{path}/credit_notes", {"total": 9, "reason": "x"})] * 15
    answers = run_concurrently([*payments, *refunds, *notes])
    assert set(answers) <= {200, 409, 422}
    record = studio.owner.get(path)["invoice"]
    assert answers[20:35].count(200) == 6, "20 was paid, and is given back by 3"
    booked = studio.owner.get(f"{path}/payments?per_page=100")["payments"]
    credited = studio.owner.get(f"{path}/credit_notes?per_page=100")["credit_notes"]
    assert len(booked) == 1 + answers[:35].count(200)
    assert [each["credit_note_number"] for each in credited] == [f"CN-{n:05d}" for n in range(1, len(credited) + 1)]
    assert sum(each["amount"] for each in booked) == record["amount_paid"] >= 0
    assert sum(each["total"] for each in credited) == record["amount_credited"] <= 120
    assert record["total"] + record["to_refund"] == sum(
        record[name] for name in ("amount_paid", "amount_credited", "amount_due")
    )
    assert len(record["payments"]) == len(booked)
    # Each event starts from the state the previous one ended with, so they are in commit order.
    events = studio.happened()
    assert len(events) == answers.count(200)
    for before, after in pairwise(events):
        for name in ("amount_paid", "amount_credited"):
            assert after.changes.get(name, {"from": before.record[name]})["from"] == before.record[name]


def test_concurrent_sends_and_credits_leave_no_gap_in_the_numbers(studio: Studio) -> None:
    items = [{"description": "Work", "qty": 1, "unit_price": 100}]
    drafts = [
        studio.owner.post(f"{studio.project}/invoices", json={"invoice_items": items})["invoice"]["id"]
        for _ in range(12)
    ]

    def send_and_credit(invoice: str) -> tuple[str, str]:
        sent = studio.owner.post(f"/invoices/{invoice}/send")["invoice"]["invoice_number"]
        # Refused credit notes use no number.
        assert studio.owner.refused(
            422, "POST", f"/invoices/{invoice}/credit_notes", json={"total": 101, "reason": "x"}
        )
        note = studio.owner.post(f"/invoices/{invoice}/credit_notes", json={"reason": "x"})["credit_note"]
        return sent, note["credit_note_number"]

    numbers = run_concurrently([lambda each=each: send_and_credit(each) for each in drafts])  # type: ignore[misc]
    assert sorted(number for number, _ in numbers) == [f"INV-{n:05d}" for n in range(1, 13)]
    assert sorted(number for _, number in numbers) == [f"CN-{n:05d}" for n in range(1, 13)]
