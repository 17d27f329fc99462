"""The cookies of pages: of the session, of a form that is shown before there is one, and of a known device.

A browser is a known device of those who have signed in there before. That signs nobody in. It only has wrong passwords
from this browser counted by themselves, so that others who guess cannot keep the user out here. Each entry of the
cookie is signed by the vault's key, for one user and until that user's password changes.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from functools import cache
from itertools import count
from typing import NamedTuple
from urllib.parse import urlsplit

from workhook.core.clock import now_ms
from workhook.http.calls import Call, origin
from workhook.identity.signin.passwords import KnownDevice

SESSION = "workhook_session"
FORM = "workhook_form"
_LENGTH_MAX = 200
_spellings = (number for number in count() if not number & 8)  # bit 3 is the hyphen's


def is_https(call: Call) -> bool:
    """Whether the browser speaks https: the proxy says so, or the request is for the public address, which is https."""
    settings = call.services.settings
    came_by = origin(call.request, settings.trust_proxy)
    public = f"https://{urlsplit(came_by).netloc.lower()}"
    return came_by.startswith("https://") or public == (settings.base_url or "").lower()


def read(call: Call, name: str, *, length_max: int = _LENGTH_MAX) -> str | None:
    """The value of a cookie. Over https only the name with `__Host-` counts: no other host, nor http, can set that."""
    wanted = _full_name(call, name)
    for pair in (call.header("cookie") or "").split(";"):
        found, _, value = pair.strip().partition("=")
        if found == wanted:
            return value if 0 < len(value) <= length_max and value.isascii() else None
    return None


def write(call: Call, name: str, value: str, *, max_age_s: int | None = None) -> dict[str, str]:
    """The header that sets a cookie. `max_age_s` None: until the browser closes; 0: it is deleted."""
    parts = [f"{_full_name(call, name)}={value}", "Path=/", "HttpOnly", "SameSite=Lax"]
    if is_https(call):
        parts.append("Secure")
    if max_age_s is not None:
        parts.append(f"Max-Age={max_age_s}")
    return {_header(name): "; ".join(parts)}


@cache
def _header(name: str) -> str:
    """`Set-Cookie`, in a spelling that no other cookie has: so a dict of headers takes several. All go out in lower
    case."""
    number = next(_spellings)
    return "".join(sign.upper() if number >> bit & 1 else sign for bit, sign in enumerate("set-cookie"))


def csrf_of(secret: str) -> str:
    """The `csrf` field of the forms that go with a cookie. It follows from the cookie's value, which it does not tell,
    so nothing is stored."""
    return _mac(secret.encode(), "workhook csrf")


def masked(csrf: str) -> str:
    """The field of one form: another text each time, so that the length of a compressed page tells nothing of it."""
    plain = csrf.encode()
    pad = secrets.token_bytes(len(plain))
    return to_base64(pad + bytes(a ^ b for a, b in zip(pad, plain, strict=True)))


def unmasked(field: str) -> str:
    """What `masked` was given; empty for any other text."""
    try:
        data = base64.urlsafe_b64decode(field + "=" * (-len(field) % 4))
        half = len(data) // 2
        return bytes(a ^ b for a, b in zip(data[:half], data[half:], strict=True)).decode("ascii")
    except ValueError:  # of base64, of an odd length, and of ASCII
        return ""


def sign(call: Call, purpose: str, body: str) -> str:
    """The signature of `body`, by the newest key of the vault for this purpose."""
    return _mac(call.services.vault.derive(purpose)[0], body)


def is_signed(call: Call, purpose: str, body: str, signature: str) -> bool:
    """Whether `signature` is `body`'s, by any key of the vault."""
    keys = call.services.vault.derive(purpose)
    return any(hmac.compare_digest(_mac(key, body).encode(), signature.encode()) for key in keys)


def _mac(key: bytes, text: str) -> str:
    return to_base64(hmac.digest(key, text.encode(), "sha256"))


def to_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def is_own_origin(call: Call, text: str) -> bool:
    """Whether a page of this server has this scheme, host and port."""
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
DEVICE_LASTS_S = 400 * 86_400  # browsers keep none for longer
DEVICE_USERS_MAX = 5  # of one browser; the one who has not signed in for longest is forgotten
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
    changed_at: int  # when the user's password was last changed; 0: there was none
    text: str


def find_device(call: Call, user_id: int, changed_at: int) -> str | None:
    """The id of this browser, if the user has signed in here since the password was changed."""
    known = (each.device for each in _device_entries(call) if (each.user_id, each.changed_at) == (user_id, changed_at))
    return next(known, None)


class _DeviceFinder(NamedTuple):
    """`find_device` for a request."""

    call: Call
    user_ids: tuple[int, ...]

    def __call__(self, user_id: int, changed_at: int) -> str | None:
        return find_device(self.call, user_id, changed_at)


def device_finder(call: Call) -> KnownDevice | None:
    """None where the browser of this request has no such cookie, so that nothing is looked up."""
    entries = _device_entries(call)
    return _DeviceFinder(call, tuple(each.user_id for each in entries)) if entries else None


def remember_device(call: Call, user_id: int, changed_at: int) -> dict[str, str]:
    """The cookie with the user in it, as a header. The other users of this browser stay."""
    device = find_device(call, user_id, changed_at) or secrets.token_hex(16)
    body = f"{user_id}-{device}-{changed_at}-{now_ms() // 1000 + DEVICE_LASTS_S}"
    entry = f"{body}.{sign(call, _DEVICE_PURPOSE, body)}"
    others = [each.text for each in _device_entries(call) if each.user_id != user_id]
    return write(call, DEVICE, "~".join([entry, *others][:DEVICE_USERS_MAX]), max_age_s=DEVICE_LASTS_S)


def _device_entries(call: Call) -> list[_DeviceEntry]:
    """Those whose signature is right and whose time has not come."""
    found = []
    for text in (read(call, DEVICE, length_max=_DEVICE_MAX_CHARS) or "").split("~")[:DEVICE_USERS_MAX]:
        parts = _DEVICE_ENTRY.fullmatch(text)
        if parts is None or int(parts["until"]) <= now_ms() // 1000:
            continue
        if is_signed(call, _DEVICE_PURPOSE, parts["body"], parts["sign"]):
            found.append(_DeviceEntry(int(parts["user"]), parts["device"], int(parts["changed"]), text))
    return found
