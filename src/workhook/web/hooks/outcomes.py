"""How an attempt ended, in the reader's words. What no receiver said is told apart from what one answered: the API
has a status of HTTP for both."""

from __future__ import annotations

from collections.abc import Mapping

from workhook.delivery import send
from workhook.web.frame.refusals import in_words
from workhook.web.frame.texts import gettext, text

_ANSWERED = ("OK", "Invalid HTTP Response:")
_UNSENT: Mapping[str, str] = {
    send.REFUSED: text("not sent: the address is not allowed"),
    send.TOO_LARGE: text("not sent: the payload is too large"),
}
_UNANSWERED: Mapping[str, str] = {
    send.NO_HOST: text("no answer: the name was not found, or the connection was refused"),
    send.NO_NETWORK: text("no answer: its network cannot be reached"),
    send.TIMED_OUT: text("no answer: it took too long"),
    send.CLOSED: text("no answer: it closed the connection"),
    send.MALFORMED: text("no answer that is HTTP"),
}
_OTHER = text("no answer: %(reason)s")


def answered(status: str) -> bool:
    """Whether the receiver answered. `status`: of a delivery, as the API has it."""
    return status.startswith(_ANSWERED)


def briefly(status: str) -> str:
    """What stands in place of a status that no receiver sent."""
    return gettext("not sent") if status in _UNSENT else gettext("no answer")


def words(status: str) -> str:
    """The whole of it."""
    if answered(status):
        return in_words(status)
    known = {**_UNSENT, **_UNANSWERED}.get(status)
    return gettext(known) if known else gettext(_OTHER) % {"reason": status}
