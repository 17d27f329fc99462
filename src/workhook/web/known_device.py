"""The cookie by which a browser is known as one in which a user has signed in before.

It signs nobody in. It only has wrong passwords from this browser counted by themselves, so that others who guess cannot
keep the user out here. Each entry is signed by the vault's key, for one user and until that user's password changes.
"""

from __future__ import annotations

import re
import secrets
from functools import partial
from typing import NamedTuple

from workhook.core.clock import now_ms
from workhook.http.calls import Call
from workhook.identity.signin.passwords import KnownDevice
from workhook.web import cookies

COOKIE = "workhook_device"
LASTS_S = 400 * 86_400  # browsers keep none for longer
USERS_MAX = 5  # of one browser; the one who has not signed in for longest is forgotten
_COOKIE_MAX_CHARS = 1500
_PURPOSE = "known device"
_ENTRY = re.compile(
    r"(?P<body>(?P<user>\d{1,19})-(?P<device>[0-9a-f]{32})-(?P<changed>\d{1,19})-(?P<until>\d{1,19}))"
    r"\.(?P<sign>[\w-]{43})",
    re.ASCII,
)


class _Entry(NamedTuple):
    user_id: int
    device: str
    changed_at: int  # when the user's password was last changed; 0: there was none
    text: str


def find(call: Call, user_id: int, changed_at: int) -> str | None:
    """The id of this browser, if the user has signed in here since the password was changed."""
    known = (each.device for each in _entries(call) if (each.user_id, each.changed_at) == (user_id, changed_at))
    return next(known, None)


def finder(call: Call) -> KnownDevice | None:
    """`find` for this request; None where its browser has no such cookie, so that nothing is looked up for it."""
    return partial(find, call) if _entries(call) else None


def remember(call: Call, user_id: int, changed_at: int) -> dict[str, str]:
    """The cookie with the user in it, as a header. The other users of this browser stay."""
    device = find(call, user_id, changed_at) or secrets.token_hex(16)
    body = f"{user_id}-{device}-{changed_at}-{now_ms() // 1000 + LASTS_S}"
    entry = f"{body}.{cookies.sign(call, _PURPOSE, body)}"
    others = [each.text for each in _entries(call) if each.user_id != user_id]
    cookie = cookies.write(call, COOKIE, "~".join([entry, *others][:USERS_MAX]), max_age_s=LASTS_S)
    return {"Set-cookie": cookie["Set-Cookie"]}  # beside the session's: two headers that differ in case for a dict only


def _entries(call: Call) -> list[_Entry]:
    """Those whose signature is right and whose time has not come."""
    found = []
    for text in (cookies.read(call, COOKIE, length_max=_COOKIE_MAX_CHARS) or "").split("~")[:USERS_MAX]:
        parts = _ENTRY.fullmatch(text)
        if parts is None or int(parts["until"]) <= now_ms() // 1000:
            continue
        if cookies.is_signed(call, _PURPOSE, parts["body"], parts["sign"]):
            found.append(_Entry(int(parts["user"]), parts["device"], int(parts["changed"]), text))
    return found
