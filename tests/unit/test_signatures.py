"""Signatures made by the sender's code, checked as a receiver does."""

from __future__ import annotations

import pytest

from workhook.delivery.sign import HeaderStyle, Profile, Signer
from workhook.hooks.receivers import TOLERANCE_S, check_signatures

SECRET = "whsec_" + "c2VjcmV0" * 5
NOW_S = 1_790_000_000


def signed(
    body: bytes = b'{"a":1}', *, secret: str = SECRET, style: HeaderStyle = "standard"
) -> tuple[dict[str, str], bytes]:
    kind = {"hook_id": 1, "target_id": 2, "target_type": "repository", "content_type": "json"}
    profile = Profile(**kind, secret=secret.encode(), header_style=style)  # type: ignore[arg-type]
    request = Signer(profile).prepare(body, guid="guid", event="task", now_ms=NOW_S * 1000)
    return {name.lower(): value for name, value in request.headers.items()}, request.body


@pytest.mark.parametrize("style", ["github", "service", "standard"])
def test_the_senders_signatures_are_valid(style: HeaderStyle) -> None:
    headers, body = signed(style=style)
    assert check_signatures(headers, body, [SECRET], NOW_S) == "right"
    assert check_signatures(headers, body, ["another", SECRET], NOW_S) == "right"
    assert check_signatures(headers, body + b" ", [SECRET], NOW_S) == "wrong"
    assert check_signatures(headers, body, ["another"], NOW_S) == "wrong"


@pytest.mark.parametrize("name", ["x-hub-signature-256", "x-hub-signature", "webhook-signature"])
def test_one_wrong_signature_makes_a_delivery_invalid(name: str) -> None:
    headers, body = signed()
    for value in ("", "x", "sha256=é", headers[name][:-2] + "00"):
        assert check_signatures({**headers, name: value}, body, [SECRET], NOW_S) == "wrong", value


def test_an_old_delivery_is_late() -> None:
    headers, body = signed()
    assert check_signatures(headers, body, [SECRET], NOW_S + TOLERANCE_S) == "right"
    for now in (NOW_S + TOLERANCE_S + 1, NOW_S - TOLERANCE_S - 1):
        assert check_signatures(headers, body, [SECRET], now) == "late"
    assert check_signatures({**headers, "webhook-timestamp": "soon"}, body, [SECRET], NOW_S) == "wrong"


def test_an_unsigned_or_uncheckable_delivery_has_no_signature() -> None:
    headers, body = signed()
    bare = {name: value for name, value in headers.items() if "signature" not in name}
    assert check_signatures(bare, body, [SECRET], NOW_S) == "missing"
    assert check_signatures(headers, body, [], NOW_S) == "missing"
