"""Checks the signatures of a delivery as its receiver does: GitHub's (`X-Hub-Signature-256`, `X-Hub-Signature`) and
those of Standard Webhooks (`webhook-signature`)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Literal

from workhook.events.hook_config import standard_key

TOLERANCE_S = 300
"""How old, or how far ahead, the time of a Standard Webhooks delivery may be."""

SignatureState = Literal["right", "wrong", "late", "missing"]
"""`late`: it would be right, but its time is not now. `missing`: there is none, or no secret to check it with."""


def check_signatures(headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now_s: int) -> SignatureState:
    """`headers`: by their names in lower case. Each signature that is there has to be right by one of the secrets."""
    keys = [each.encode() for each in secrets]
    found = [
        _github(headers.get("x-hub-signature-256"), "sha256", body, keys),
        _github(headers.get("x-hub-signature"), "sha1", body, keys),
        _standard(headers, body, keys, now_s),
    ]
    states: set[SignatureState] = {each for each in found if each is not None}
    if not states or not keys:
        return "missing"
    return "wrong" if "wrong" in states else "late" if "late" in states else "right"


def _github(given: str | None, name: str, body: bytes, keys: Sequence[bytes]) -> SignatureState | None:
    if given is None:
        return None
    return "right" if any(_same(given, f"{name}={hmac.new(key, body, name).hexdigest()}") for key in keys) else "wrong"


def _standard(headers: Mapping[str, str], body: bytes, keys: Sequence[bytes], now_s: int) -> SignatureState | None:
    given = headers.get("webhook-signature")
    if given is None:
        return None
    moment = headers.get("webhook-timestamp", "")
    signed = f"{headers.get('webhook-id', '')}.{moment}.".encode() + body
    expected = [_standard_signature(key, signed) for key in keys]
    if not any(_same(each, right) for each in given.split() for right in expected):
        return "wrong"
    is_now = moment.isascii() and moment.isdigit() and abs(int(moment[:15]) - now_s) <= TOLERANCE_S
    return "right" if is_now else "late"


def _standard_signature(secret: bytes, signed: bytes) -> str:
    digest = hmac.new(standard_key(secret) or secret, signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
