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
    """Whether the browser speaks https: as the proxy says, or since the request is for a public address of https."""
    settings = call.services.settings
    came_by = origin(call.request, settings.trust_proxy)
    public = f"https://{urlsplit(came_by).netloc.lower()}"
    return came_by.startswith("https://") or public == (settings.base_url or "").lower()


def read(call: Call, name: str, *, length_max: int = _LENGTH_MAX) -> str | None:
    """The value. By https only the name with `__Host-` counts: no other host, nor http, can have set that one."""
    wanted = _full_name(call, name)
    for pair in (call.header("cookie") or "").split(";"):
        found, _, value = pair.strip().partition("=")
        if found == wanted:
            return value if 0 < len(value) <= length_max and value.isascii() else None
    return None


def write(call: Call, name: str, value: str, *, max_age_s: int | None = None) -> dict[str, str]:
    """As a header. `max_age_s` None: until the browser closes; 0: gone."""
    parts = [f"{_full_name(call, name)}={value}", "Path=/", "HttpOnly", "SameSite=Lax"]
    if is_https(call):
        parts.append("Secure")
    if max_age_s is not None:
        parts.append(f"Max-Age={max_age_s}")
    return {"Set-Cookie": "; ".join(parts)}


def csrf_of(secret: str) -> str:
    """What a form of whoever has this cookie carries. It follows from the cookie, so that nothing need be stored, and
    tells nothing of it."""
    digest = hmac.digest(secret.encode(), b"workhook csrf", "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def own_origins(call: Call) -> set[str]:
    """Scheme, host and port that this server's pages have."""
    settings = call.services.settings
    return {_normal(each) for each in (origin(call.request, settings.trust_proxy), settings.base_url) if each}


def is_own_origin(call: Call, text: str) -> bool:
    return _normal(text) in own_origins(call)


def _normal(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.hostname}:{port}"


def _full_name(call: Call, name: str) -> str:
    return f"__Host-{name}" if is_https(call) else name
