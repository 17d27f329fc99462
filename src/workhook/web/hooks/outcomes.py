"""The outcome of an attempt in the reader's language.

Responses of a receiver are distinguished from failures without one, because the API has an HTTP status for both.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from workhook.delivery import client, send
from workhook.hooks.schemas import DeliveryDetail, DeliveryResponse
from workhook.web.frame.formats import file_size, with_mark
from workhook.web.frame.texts import gettext, text

_CODE_FOLLOWS = "Invalid HTTP Response: "
_ANSWERED = ("OK", _CODE_FOLLOWS)
_NOT_CHANGED = "304"  # the only 3xx code that is not a redirect
OFF_REASONS = (
    text("The receiver answered 410 Gone."),
    text("Every delivery has failed for five days."),
    text("The users who authorize the app may no longer manage webhooks here."),
    text("No user who can manage webhooks here still authorizes the app."),
    text("You no longer have permission to manage webhooks here."),
)
"""The reasons for which Workhook disables a webhook, as in the audit log."""
_UNSENT: Mapping[str, str] = {
    send.REFUSED: text("address not allowed"),
    send.TOO_LARGE: text("payload too large"),
}
_UNANSWERED: Mapping[str, str] = {
    client.NO_HOST: text("host not found or connection refused"),
    client.NO_NETWORK: text("network unreachable"),
    send.TIMED_OUT: text("timed out"),
    client.CLOSED: text("connection closed by the receiver"),
    client.MALFORMED: text("response isn’t HTTP, or its headers exceed 64 KB"),
}
_REFUSED = text("connection refused")
_LIMIT = text("no response within %(seconds)s s")


def answered(status: str) -> bool:
    """Return whether the receiver responded. `status` is the delivery's status in the API."""
    return status.startswith(_ANSWERED)


def briefly(status: str) -> str:
    """Return the text shown instead of a status code if the receiver did not respond."""
    return gettext("not sent") if status in _UNSENT else gettext("no response")


def reason(status: str, *, url: str = "", limit_s: float | None = None) -> str:
    """Return the text next to `briefly` or the code. The receiver's `url` and the time limit make it more specific."""
    if _redirect(status) not in ("", _NOT_CHANGED):
        return gettext("redirects aren’t followed")
    if answered(status):
        return _answer(status)
    if status == send.TIMED_OUT and limit_s is not None:
        return gettext(_LIMIT, seconds=with_mark(f"{limit_s:g}"))
    if status == client.NO_HOST and _has_address(url):
        return gettext(_REFUSED)
    known = {**_UNSENT, **_UNANSWERED}.get(status)
    return gettext(known) if known else status


def words(status: str, *, url: str = "", limit_s: float | None = None) -> str:
    """Return the whole text, with the parameters of `reason`."""
    text = reason(status, url=url, limit_s=limit_s)
    if not answered(status):
        return f"{briefly(status)}: {text}"
    whole = _answer(status)
    return whole if text == whole else f"{whole} ({text})"


def _answer(status: str) -> str:
    _, follows, code = status.partition(_CODE_FOLLOWS)
    return gettext("Invalid HTTP Response: %(code)s", code=code) if follows else gettext(status)


def _redirect(status: str) -> str:
    """Return the code of a 3xx response; otherwise empty."""
    _, _, code = status.partition(_CODE_FOLLOWS)
    return code if code.startswith("3") else ""


def _has_address(url: str) -> bool:
    """Return whether the host is an IP address, so that no name was resolved."""
    try:
        ipaddress.ip_address(urlsplit(url).hostname or "")
    except ValueError:
        return False
    return True


def leads_to(delivery: DeliveryDetail) -> str:
    """Return the target of a redirect, which is not followed; empty for other responses."""
    if not _redirect(delivery.status):
        return ""
    return next((value for name, value in delivery.response.headers.items() if name.lower() == "location"), "")


def kept(response: DeliveryResponse) -> str:
    """Return a note if only the beginning of a body is stored; otherwise empty."""
    most = file_size(client.MAX_BODY_BYTES)
    headers = {name.lower(): value for name, value in response.headers.items()}
    length = headers.get("content-length", "")
    # An invalid byte counts as three here; the last character may have lost up to three bytes.
    size = len(response.payload.encode()) - 2 * response.payload.count("\ufffd")
    if size < client.MAX_BODY_BYTES - 3:
        return ""
    if not length.isascii() or not length.isdigit() or "content-encoding" in headers:
        return gettext("Only the first %(most)s of a body are stored, so this one may be incomplete.", most=most)
    if int(length) <= client.MAX_BODY_BYTES:
        return ""
    return gettext(
        "The receiver sent %(all)s; only the first %(most)s are stored.", all=file_size(int(length)), most=most
    )
