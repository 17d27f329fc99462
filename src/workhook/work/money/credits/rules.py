"""The steps of a credit ledger, as pure functions over the lots of its grants.

A grant is a lot of credits. The oldest lot is spent first, regardless of its expiry; the rest of a lot is lost at its
`expires_at`. The balance is the sum of all entries, and always equals the total that remains in all lots. Amounts are
in minor units (hundredths of a credit).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # digits of IDs

Kind = Literal["grant", "spend", "expire", "reversal"]


class Use(NamedTuple):
    """An amount taken from a grant."""

    grant_id: str
    amount_minor: int


class Lot(msgspec.Struct, frozen=True):
    id: str
    amount_minor: int
    remaining_minor: int
    expires_at: int | None

    def is_due(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now and self.remaining_minor > 0

    def with_remaining(self, remaining_minor: int) -> Lot:
        return msgspec.structs.replace(self, remaining_minor=remaining_minor)


class LedgerStep(msgspec.Struct, frozen=True):
    """An entry to append, and the lots it changes."""

    kind: Kind
    amount_minor: int
    balance_after_minor: int
    uses: tuple[Use, ...] = ()
    lots: tuple[Lot, ...] = ()
    expires_at: int | None = None


def id_after(last_id: str, fresh_id: str) -> str:
    """Return `fresh_id`, or the smallest ID after `last_id` if that is greater.

    Entries are listed by ID, but the clock may be set back, and two entries may share a millisecond.
    """
    if fresh_id > last_id:
        return fresh_id
    head = last_id.rstrip(_DIGITS[-1])
    step = _DIGITS[_DIGITS.index(head[-1]) + 1]
    return head[:-1] + step + _DIGITS[0] * (len(last_id) - len(head))


def expire(balance_minor: int, lots: Iterable[Lot], now: int) -> list[LedgerStep]:
    """Return an expiry entry for each due lot, oldest first."""
    steps = []
    for lot in sorted((each for each in lots if each.is_due(now)), key=lambda each: each.id):
        balance_minor -= lot.remaining_minor
        taken = (Use(lot.id, lot.remaining_minor),)
        emptied = (lot.with_remaining(0),)
        steps.append(LedgerStep("expire", -lot.remaining_minor, balance_minor, taken, emptied, lot.expires_at))
    return steps


def spend(balance_minor: int, lots: Iterable[Lot], amount_minor: int) -> LedgerStep | None:
    """Spend from the oldest lots, none of which may be due. Returns None if they do not suffice."""
    missing, taken, left = amount_minor, [], []
    for lot in sorted(lots, key=lambda each: each.id):
        if missing == 0:
            break
        used = min(missing, lot.remaining_minor)
        missing -= used
        taken.append(Use(lot.id, used))
        left.append(lot.with_remaining(lot.remaining_minor - used))
    if missing:
        return None
    return LedgerStep("spend", -amount_minor, balance_minor - amount_minor, tuple(taken), tuple(left))


def reverse_grant(balance_minor: int, lot: Lot) -> LedgerStep | None:
    """Reverse a grant. Returns None if part of the lot is gone."""
    if lot.remaining_minor != lot.amount_minor:
        return None
    return LedgerStep("reversal", -lot.amount_minor, balance_minor - lot.amount_minor, lots=(lot.with_remaining(0),))


def reverse_spend(balance_minor: int, uses: Sequence[Use], lots: Iterable[Lot], now: int) -> list[LedgerStep]:
    """Return the steps that restore spent credits to their lots. `lots` must include those of `uses`.

    Credits restored to an expired lot expire immediately.
    """
    known = {lot.id: lot for lot in lots}
    restored = tuple(
        known[use.grant_id].with_remaining(known[use.grant_id].remaining_minor + use.amount_minor) for use in uses
    )
    amount = sum(use.amount_minor for use in uses)
    back = LedgerStep("reversal", amount, balance_minor + amount, lots=restored)
    return [back, *expire(back.balance_after_minor, restored, now)]
