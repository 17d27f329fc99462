"""Whom an address stands for, where calls and attempts are counted by it."""

from __future__ import annotations

import ipaddress


def subscriber(address: str | None) -> str:
    """One subscriber has 2^64 addresses of IPv6 (RFC 6177): they count as one, and an address of IPv4 that is written
    as one of IPv6 as what it is. Whatever is no address counts as one too: it can be written in many ways."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return str(parsed)
