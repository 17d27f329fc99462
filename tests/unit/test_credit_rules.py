"""The ledger's rules, tested on whole ledgers: every sequence of operations leaves consistent sums."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from workhook.core.ids import new_id
from workhook.work.money.credits import rules
from workhook.work.money.credits.rules import LedgerStep, Lot, Use


def lot(name: str, amount: int, remaining: int | None = None, expires_at: int | None = None) -> Lot:
    return Lot(name, amount, amount if remaining is None else remaining, expires_at)


def test_the_oldest_grant_is_spent_first_regardless_of_expiry() -> None:
    step = rules.spend(900, [lot("b", 400, expires_at=10), lot("a", 500)], 600)
    assert step is not None
    assert step.uses == (Use("a", 500), Use("b", 100))
    assert [(each.id, each.remaining_minor) for each in step.lots] == [("a", 0), ("b", 300)]
    assert (step.amount_minor, step.balance_after_minor) == (-600, 300)


def test_more_than_the_balance_cannot_be_spent() -> None:
    assert rules.spend(500, [lot("a", 500)], 501) is None
    assert rules.spend(0, [], 1) is None


def test_only_unspent_credits_expire_and_only_when_due() -> None:
    lots = [lot("b", 500, 200, expires_at=10), lot("a", 100, expires_at=9), lot("c", 300, expires_at=11)]
    steps = rules.expire(600, lots, 10)
    assert [(each.amount_minor, each.balance_after_minor) for each in steps] == [(-100, 500), (-200, 300)]


def test_a_used_grant_cannot_be_reversed() -> None:
    assert rules.reverse_grant(400, lot("a", 500, 400)) is None
    step = rules.reverse_grant(700, lot("a", 500))
    assert step is not None
    assert (step.amount_minor, step.balance_after_minor) == (-500, 200)


def test_credits_returned_to_an_expired_grant_expire_immediately() -> None:
    lots = [lot("a", 500, 0, expires_at=10), lot("b", 300, 100)]
    steps = rules.reverse_spend(100, [Use("a", 500), Use("b", 200)], lots, now=10)
    assert [(each.kind, each.amount_minor, each.balance_after_minor) for each in steps] == [
        ("reversal", 700, 800),
        ("expire", -500, 300),
    ]


def test_ids_increase_even_if_the_clock_does_not() -> None:
    assert rules.id_after("crd_0a", "crd_0b") == "crd_0b"
    assert rules.id_after("crd_0b", "crd_0a") == "crd_0c"
    assert rules.id_after("crd_0z", "crd_00") == "crd_10"
    assert rules.id_after("crd_h9", "crd_00") == "crd_ha"
    last = new_id("crd")
    assert last < rules.id_after(last, last) < rules.id_after(rules.id_after(last, last), "")


@dataclass
class Ledger:
    """A complete ledger in memory, changed only by the rules."""

    balance: int = 0
    lots: dict[str, Lot] = field(default_factory=dict)
    entries: list[LedgerStep] = field(default_factory=list)
    standing: dict[int, LedgerStep] = field(default_factory=dict)  # spends that were not reversed, by position

    def append(self, step: LedgerStep) -> None:
        self.balance += step.amount_minor
        assert step.balance_after_minor == self.balance
        self.entries.append(step)
        self.lots.update({each.id: each for each in step.lots})

    def check(self) -> None:
        assert self.balance >= 0
        assert self.balance == sum(each.amount_minor for each in self.entries)
        assert self.balance == sum(each.remaining_minor for each in self.lots.values())
        assert all(0 <= each.remaining_minor <= each.amount_minor for each in self.lots.values())


AMOUNTS = st.integers(1, 10_000)
DEEDS = st.one_of(
    st.tuples(st.just("grant"), AMOUNTS, st.none() | st.integers(0, 100)),
    st.tuples(st.just("spend"), AMOUNTS, st.none()),
    st.tuples(st.just("wait"), st.integers(1, 30), st.none()),
    st.tuples(st.just("undo spend"), st.integers(0), st.none()),
    st.tuples(st.just("undo grant"), st.integers(0), st.none()),
)


def do(ledger: Ledger, now: int, deed: str, number: int, expires_at: int | None) -> None:
    for step in rules.expire(ledger.balance, ledger.lots.values(), now):
        [use] = step.uses
        assert use.amount_minor <= ledger.lots[use.grant_id].remaining_minor
        ledger.append(step)
    if deed == "grant":
        name = f"{len(ledger.entries):04d}"
        ledger.lots[name] = Lot(name, number, number, expires_at)
        ledger.append(LedgerStep("grant", number, ledger.balance + number))
    elif deed == "spend":
        spent = rules.spend(ledger.balance, ledger.lots.values(), number)
        assert (spent is None) == (number > ledger.balance)
        if spent:
            ledger.standing[len(ledger.entries)] = spent
            ledger.append(spent)
    elif deed == "undo spend" and ledger.standing:
        place = sorted(ledger.standing)[number % len(ledger.standing)]
        undone = ledger.standing.pop(place)
        for step in rules.reverse_spend(ledger.balance, undone.uses, ledger.lots.values(), now):
            ledger.append(step)
    elif deed == "undo grant" and ledger.lots:
        chosen = ledger.lots[sorted(ledger.lots)[number % len(ledger.lots)]]
        if taken_back := rules.reverse_grant(ledger.balance, chosen):
            ledger.append(taken_back)


@settings(max_examples=300, deadline=None)
@given(st.lists(DEEDS, max_size=40))
def test_a_ledger_always_adds_up(deeds: list[tuple[str, int, int | None]]) -> None:
    ledger, now = Ledger(), 0
    for deed, number, expires_at in deeds:
        now += number if deed == "wait" else 0
        do(ledger, now, deed, number, expires_at)
        ledger.check()
    do(ledger, 1_000, "wait", 0, None)
    assert ledger.balance == sum(each.remaining_minor for each in ledger.lots.values() if each.expires_at is None)
