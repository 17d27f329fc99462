"""Cookies for sessions, for forms without a session, and for known devices.

A browser is a known device of every user who has signed in with it. That doesn't sign them in: wrong passwords from
this browser are merely counted separately, so guesses from elsewhere can't lock the user out here. Each entry of the
cookie is signed with the vault's key, for one user and until that user's password changes.
"""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.errors import Malformed
from workhook.core.vault import signature_of, to_base64
from workhook.http.calls import Call, origin
from workhook.identity.signin.passwords import KnownDevice

S = TypeVar("S", bound=msgspec.Struct)

SESSION = "workhook_session"
FORM = "workhook_form"
_LENGTH_MAX = 200
_spellings = (number for number in count() if not number & 8)  # bit 3 is the hyphen


def is_https(call: Call) -> bool:
    """Return whether the browser uses HTTPS, according to the request, the proxy, or `base_url`."""
    settings = call.services.settings
    came_by = origin(call.request, settings.trust_proxy)
    public = f"https://{urlsplit(came_by).netloc.lower()}"
    return came_by.startswith("https://") or public == (settings.base_url or "").lower()


def read(call: Call, name: str, *, length_max: int = _LENGTH_MAX) -> str | None:
    """Return the value of a cookie. Over HTTPS, only `__Host-` counts, which neither other hosts nor HTTP can set."""
    wanted = _full_name(call, name)
    for pair in (call.header("cookie") or "").split(";"):
        found, _, value = pair.strip().partition("=")
        if found == wanted:
            return value if 0 < len(value) <= length_max and value.isascii() else None
    return None


def write(call: Call, name: str, value: str, *, max_age_s: int | None = None) -> dict[str, str]:
    """Return the header that sets a cookie. It lasts until the browser closes if `max_age_s` is None; 0 deletes it."""
    parts = [f"{_full_name(call, name)}={value}", "Path=/", "HttpOnly", "SameSite=Lax"]
    if is_https(call):
        parts.append("Secure")
    if max_age_s is not None:
        parts.append(f"Max-Age={max_age_s}")
    return {_header(name): "; ".join(parts)}


@cache
def _header(name: str) -> str:
    """Return `Set-Cookie` in a unique spelling, so a dict can contain several. All are sent in lowercase."""
    number = next(_spellings)
    return "".join(sign.upper() if number >> bit & 1 else sign for bit, sign in enumerate("set-cookie"))


def csrf_of(secret: str) -> str:
    """Return the `csrf` field for forms that belong to a cookie, derived from its value without revealing it."""
    return signature_of(secret.encode(), "workhook csrf")


def masked(csrf: str) -> str:
    """Mask `csrf` differently for each form, so the length of a compressed page reveals nothing (BREACH)."""
    plain = csrf.encode()
    pad = secrets.token_bytes(len(plain))
    return to_base64(pad + bytes(a ^ b for a, b in zip(pad, plain, strict=True)))


def unmasked(field: str) -> str:
    """Undo `masked`. Returns an empty string for invalid text."""
    try:
        data = base64.urlsafe_b64decode(field + "=" * (-len(field) % 4))
        half = len(data) // 2
        return bytes(a ^ b for a, b in zip(data[:half], data[half:], strict=True)).decode("ascii")
    except ValueError:  # invalid base64, odd length or not ASCII
        return ""


def seal(call: Call, purpose: str, value: msgspec.Struct, bound_to: str = "") -> str:
    """Return `value` as signed text, which `unseal` accepts with the same `bound_to`."""
    body = to_base64(msgspec.json.encode(value))
    return f"{body}.{call.services.vault.sign(purpose, f'{bound_to}.{body}')}"


def unseal(call: Call, purpose: str, text: str, shape: type[S], bound_to: str = "") -> S | None:
    """Return the value, or None if the signature is wrong or the value is from an incompatible version."""
    body, _, signature = text.rpartition(".")
    if not call.services.vault.is_signed(purpose, f"{bound_to}.{body}", signature):
        return None
    try:
        value: S = json.decode_untrusted(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), shape)
    except (ValueError, Malformed):  # `ValueError` from base64
        return None
    return value


def is_own_origin(call: Call, text: str) -> bool:
    """Return whether `text` is an origin of this server."""
    settings = call.services.settings
    own = (origin(call.request, settings.trust_proxy), settings.base_url)
    return _normal(text) in {_normal(each) for each in own if each}


def _normal(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.hostname}:{port}"


def _full_name(call: Call, name: str) -> str:
    return f"__Host-{name}" if is_https(call) else name


# --- the known device ------------------------------------------------------------------------------------------------

DEVICE = "workhook_device"
DEVICE_LASTS_S = 400 * 86_400  # the maximum in browsers
DEVICE_USERS_MAX = 5  # per browser; the least recent is dropped
_DEVICE_MAX_CHARS = 1500
_DEVICE_PURPOSE = "known device"
_DEVICE_ENTRY = re.compile(
    r"(?P<body>(?P<user>\d{1,19})-(?P<device>[0-9a-f]{32})-(?P<changed>\d{1,19})-(?P<until>\d{1,19}))"
    r"\.(?P<sign>[\w-]{43})",
    re.ASCII,
)


class _DeviceEntry(NamedTuple):
    user_id: int
    device: str
    changed_at: int  # when the user's password was last changed; 0 without a password
    text: str


class _DeviceFinder(NamedTuple):
    """Finds the ID of this browser if a user has signed in with it since their last password change."""

    entries: Sequence[_DeviceEntry]

    @property
    def user_ids(self) -> list[int]:
        return [each.user_id for each in self.entries]

    def __call__(self, user_id: int, changed_at: int) -> str | None:
        known = (each.device for each in self.entries if (each.user_id, each.changed_at) == (user_id, changed_at))
        return next(known, None)


def device_finder(call: Call) -> KnownDevice | None:
    """Return a finder of this browser's device ID, or None without the cookie, which saves lookups."""
    entries = _device_entries(call)
    return _DeviceFinder(entries) if entries else None


def remember_device(call: Call, user_id: int, changed_at: int) -> dict[str, str]:
    """Return the header that adds the user to the cookie."""
    entries = _device_entries(call)
    device = _DeviceFinder(entries)(user_id, changed_at) or secrets.token_hex(16)
    body = f"{user_id}-{device}-{changed_at}-{now_ms() // 1000 + DEVICE_LASTS_S}"
    entry = f"{body}.{call.services.vault.sign(_DEVICE_PURPOSE, body)}"
    others = [each.text for each in entries if each.user_id != user_id]
    return write(call, DEVICE, "~".join([entry, *others][:DEVICE_USERS_MAX]), max_age_s=DEVICE_LASTS_S)


def _device_entries(call: Call) -> list[_DeviceEntry]:
    """Return the entries with a valid signature that haven't expired."""
    found = []
    for text in (read(call, DEVICE, length_max=_DEVICE_MAX_CHARS) or "").split("~")[:DEVICE_USERS_MAX]:
        parts = _DEVICE_ENTRY.fullmatch(text)
        if parts is None or int(parts["until"]) <= now_ms() // 1000:
            continue
        if call.services.vault.is_signed(_DEVICE_PURPOSE, parts["body"], parts["sign"]):
            found.append(_DeviceEntry(int(parts["user"]), parts["device"], int(parts["changed"]), text))
    return found
