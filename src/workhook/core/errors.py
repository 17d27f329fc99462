"""The one family of errors that reaches a caller, and the messages that they carry.

Each area renders an error in its own shape (`http.problems`). A `Message` is a text of English and reads as that
everywhere, so the API answers with it. A page finds its own words for it, in the reader's language, by its id
(`web.frame.refusals`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
FAULTS_MAX = 100  # in one answer: a small request can have very many faults
SHOWN_MAX_CHARS = 80


def shown(text: str) -> str:
    """Shorten a text that is quoted to its sender."""
    return text if len(text) <= SHOWN_MAX_CHARS else text[: SHOWN_MAX_CHARS - 3] + "..."


class Number(int):
    """A number that is written with separators of thousands, in the API and on pages."""

    def __str__(self) -> str:
        return f"{int(self):,}"

    def __format__(self, spec: str) -> str:
        return str(self)


class Message(str):
    """A sentence in English with its `id`, which has `{}` in place of each of the `values`.

    A value that is a message is a phrase: it has a translation of its own.
    """

    __slots__ = ("id", "values")

    id: str
    values: tuple[object, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (str(self), self.id, self.values)


def say(sentence: str, /, *values: object) -> Message:
    """The sentence with the values in place of its `{}`. It is a literal: the catalogues are collected from these."""
    return _made(sentence.format(*values), sentence, values)


def compose(sentence: str, /, *values: object) -> Message:
    """A part of a sentence, or one of parts: a value that is a message becomes a part of it. Only the whole is in the
    catalogues."""
    whole, *pieces = sentence.split("{}")
    of_whole: list[object] = []
    for value, piece in zip(values, pieces, strict=True):
        inner = value if isinstance(value, Message) else _made("", "{}", (value,))
        whole += inner.id + piece
        of_whole += inner.values
    return _made(sentence.format(*values), whole, tuple(of_whole))


def part(text: str) -> Message:
    """Return a text as a part of a sentence, unless it is a message already."""
    return text if isinstance(text, Message) else _made(text, text.replace("{", "{{").replace("}", "}}"), ())


def must_be(field: str, wanted: str | ValueError) -> Message:
    """Return the message for a wrong field. `wanted`: a part, or a `ValueError` with one."""
    return compose("{} must be {}", field, part(wanted.args[0] if isinstance(wanted, ValueError) else wanted))


def or_null(wanted: str) -> Message:
    """Add `or null` for the API. Pages, which have no null, show the part alone."""
    return _made(f"{wanted} or null", part(wanted).id, part(wanted).values)


def _made(text: str, message_id: str, values: tuple[object, ...]) -> Message:
    message = Message(text)
    message.id, message.values = message_id, values
    return message


def packed(value: object) -> object:
    """Pack a message for another process: an `enc_hook` of msgspec, whose `dec_hook` is `unpacked`."""
    if isinstance(value, Message):
        values = [each if isinstance(each, Message | Number) else str(each) for each in value.values]
        return {"text": str(value), "id": value.id, "values": values}
    if isinstance(value, Number):
        return int(value)
    raise NotImplementedError(f"Objects of type {type(value).__name__} are not packed")


def unpacked(_kind: type, value: Any) -> Any:
    """Restore a packed message or a value of one."""
    if isinstance(value, dict):
        return _made(value["text"], value["id"], tuple(unpacked(str, each) for each in value["values"]))
    return Number(value) if isinstance(value, int) else value


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong with a request: which field, what kind (`missing`, `invalid`, `custom` …), in words."""

    field: str | None = None
    code: str = "invalid"
    message: str | None = None
    value: Any = msgspec.UNSET
    resource: str | None = None


class Problem(Exception):
    """An answer that is not a success. `message` is for people; `code` for programs. `FAULTS_MAX` faults are kept."""

    status = 500
    code = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        faults: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.faults = tuple(faults[:FAULTS_MAX])
        self.headers = dict(headers or {})

    @property
    def fault_messages(self) -> list[str]:
        return [each.message for each in self.faults if each.message]

    @property
    def reasons(self) -> list[str]:
        """Return the messages of the faults, or else that of the problem."""
        return self.fault_messages or [self.message]


class Malformed(Problem):
    """The request cannot be read at all."""

    status, code = 400, "malformed"


class Unauthenticated(Problem):
    status, code = 401, "unauthenticated"


class Forbidden(Problem):
    """The caller sees the thing but may not do this with it."""

    status, code = 403, "forbidden"


class NotFound(Problem):
    """Missing, or not visible to the caller: the two are not told apart."""

    status, code = 404, "not_found"

    def __init__(self, message: str = "Not Found", **more: Any) -> None:
        super().__init__(message, **more)


def existing(found: T | None) -> T:
    """Return `found`, or raise `NotFound` for None."""
    if found is None:
        raise NotFound()
    return found


class MethodNotAllowed(Problem):
    status, code = 405, "method_not_allowed"


class Conflict(Problem):
    """The thing is in a state in which this cannot be done."""

    status, code = 409, "conflict"


class PreconditionFailed(Problem):
    status, code = 412, "precondition_failed"


class TooLarge(Problem):
    status, code = 413, "too_large"


class TargetTooLong(Problem):
    """The path and query of a request, together."""

    status, code = 414, "target_too_long"


class UnsupportedMediaType(Problem):
    status, code = 415, "unsupported_media_type"


class Invalid(Problem):
    """Well-formed, but a value is wrong; `faults` lists every wrong field at once."""

    status, code = 422, "validation_failed"

    def __init__(self, message: str = "Validation Failed", **more: Any) -> None:
        super().__init__(message, **more)


class TooManyRequests(Problem):
    """The same request can succeed later. Always answered with `Retry-After`."""

    status, code = 429, "rate_limited"

    def __init__(self, message: str, *, retry_after_s: int = 60, **more: Any) -> None:
        super().__init__(message, **more)
        self.headers.setdefault("Retry-After", str(retry_after_s))


class Unavailable(Problem):
    """Nothing was done; the same request can succeed later. Always answered with `Retry-After`."""

    status, code = 503, "unavailable"

    def __init__(self, message: str, *, retry_after_s: int = 2, **more: Any) -> None:
        super().__init__(message, **more)
        self.headers.setdefault("Retry-After", str(retry_after_s))


class Explained(Exception):
    """An error for the operator, with its remedy."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy
