"""Whom calls and attempts are counted for, however the address is written."""

from __future__ import annotations

import pytest

from workhook.identity.rate import subscriber


@pytest.mark.parametrize(
    ("address", "counted_as"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::FFFF:c000:201", "192.0.2.1"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("somebody", "unknown"),
        ("192.0.2.1, 192.0.2.2", "unknown"),
        ("", "unknown"),
        (None, "unknown"),
    ],
)
def test_one_subscriber_is_counted_as_one(address: str | None, counted_as: str) -> None:
    assert subscriber(address) == counted_as
