"""What an invoice owes, from its total, what was paid and what was credited: pure functions (decision 42).

    total + to_refund = amount_paid + amount_credited + amount_due

holds for every invoice that is neither a draft nor void. All amounts are minor units, and none is negative.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["draft", "sent", "partially_paid", "paid", "credited", "void"]

ISSUED: tuple[Status, ...] = ("sent", "partially_paid", "paid", "credited")
"""What can be paid, given back and credited; a void one was issued, too, and owes nothing."""

OPEN: tuple[Status, ...] = ("sent", "partially_paid")
"""Something is due."""


class Books(msgspec.Struct, frozen=True):
    """The sums of one invoice. `paid`: payments less refunds."""

    total: int
    paid: int = 0
    credited: int = 0

    @property
    def due(self) -> int:
        return max(self.total - self.credited - self.paid, 0)

    @property
    def to_refund(self) -> int:
        """What was paid above what is left of the total."""
        return max(self.paid - (self.total - self.credited), 0)

    @property
    def not_credited(self) -> int:
        return self.total - self.credited

    @property
    def status(self) -> Status:
        """Of an issued invoice that is not void."""
        if self.credited and self.credited == self.total:
            return "credited"
        if self.due == 0:
            return "paid"
        return "partially_paid" if self.paid else "sent"
