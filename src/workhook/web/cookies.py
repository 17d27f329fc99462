"""The two cookies: of the session, and of a form that is shown before there is one."""

from __future__ import annotations

import base64
import hmac
from urllib.parse import urlsplit

from workhook.http.calls import Call, origin

SESSION = "workhook_session"
FORM = "workhook_form"
_LENGTH_MAX = 200


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
    return {"Set-Cookie": "; ".join(parts)}


def csrf_of(secret: str) -> str:
    """The `csrf` field of the forms that go with a cookie. It follows from the cookie's value, which it does not tell,
    so nothing is stored."""
    return _mac(secret.encode(), "workhook csrf")


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
