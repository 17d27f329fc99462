"""The errors that reach a caller, and the messages they carry.

Each area renders an error in its own format (`http.problems`). A `Message` is an English sentence, which the API
returns as it is. Pages look up its translation by its ID (`web.frame.refusals`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

import msgspec

T = TypeVar("T")
FAULTS_MAX = 100  # per response, because a small request can have very many faults
SHOWN_MAX_CHARS = 80


def shown(text: str) -> str:
    """Truncate text that is quoted back to its sender."""
    return text if len(text) <= SHOWN_MAX_CHARS else text[: SHOWN_MAX_CHARS - 3] + "..."


class Number(int):
    """An integer that is formatted with thousands separators, in the API and on pages."""

    def __str__(self) -> str:
        return f"{int(self):,}"

    def __format__(self, spec: str) -> str:
        return str(self)


class Message(str):
    """An English sentence with its `id`: the sentence with `{}` in place of each of the `values`.

    A value that is itself a message is a phrase with its own translation.
    """

    __slots__ = ("id", "values")

    id: str
    values: tuple[object, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return _build_message, (str(self), self.id, self.values)


def say(sentence: str, /, *values: object) -> Message:
    """Format a sentence, filling its `{}`. It must be a literal: the catalogs are extracted from these calls."""
    return _build_message(sentence.format(*values), sentence, values)


def compose(sentence: str, /, *values: object) -> Message:
    """Build a sentence, or a part of one, out of parts. Messages among the values are merged into its ID."""
    whole, *pieces = sentence.split("{}")
    of_whole: list[object] = []
    for value, piece in zip(values, pieces, strict=True):
        inner = value if isinstance(value, Message) else _build_message("", "{}", (value,))
        whole += inner.id + piece
        of_whole += inner.values
    return _build_message(sentence.format(*values), whole, tuple(of_whole))


def phrase(text: str) -> Message:
    """Return text as a part of a sentence. Messages are returned unchanged."""
    return text if isinstance(text, Message) else _build_message(text, text.replace("{", "{{").replace("}", "}}"), ())


def must_be(field: str, wanted: str | ValueError) -> Message:
    """Return the message for an invalid field. `wanted` is a part of a sentence, or a `ValueError` with one."""
    return compose("{} must be {}", field, phrase(wanted.args[0] if isinstance(wanted, ValueError) else wanted))


def or_null(wanted: str) -> Message:
    """Append `or null` for the API. Pages, which have no null, show only the part."""
    return _build_message(f"{wanted} or null", phrase(wanted).id, phrase(wanted).values)


def on_pages(text: str, page_text: str) -> Message:
    """Return text for the API that pages replace with the translation of `page_text`."""
    return _build_message(text, page_text, ())


def _build_message(text: str, message_id: str, values: tuple[object, ...]) -> Message:
    message = Message(text)
    message.id, message.values = message_id, values
    return message


def serialize_message(value: object) -> object:
    """Serialize a message for another process, as a msgspec `enc_hook`. See also `deserialize_message`."""
    if isinstance(value, Message):
        values = [each if isinstance(each, Message | Number) else str(each) for each in value.values]
        return {"text": str(value), "id": value.id, "values": values}
    if isinstance(value, Number):
        return int(value)
    raise NotImplementedError(f"Objects of type {type(value).__name__} cannot be serialized")


def deserialize_message(_kind: type, value: Any) -> Any:
    if isinstance(value, dict):
        return _build_message(
            value["text"], value["id"], tuple(deserialize_message(str, each) for each in value["values"])
        )
    return Number(value) if isinstance(value, int) else value


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One problem with a request: the field, its kind (`missing`, `invalid`, `custom` …) and a message."""

    field: str | None = None
    code: str = "invalid"
    message: str | None = None
    value: Any = msgspec.UNSET
    resource: str | None = None


class Problem(Exception):
    """An error response. `message` is for people, `code` for programs. At most `FAULTS_MAX` faults are kept."""

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
        return self.fault_messages or [self.message]


class Malformed(Problem):
    """The request cannot be parsed."""

    status, code = 400, "malformed"


class Unauthenticated(Problem):
    status, code = 401, "unauthenticated"


class Forbidden(Problem):
    """The caller may see the resource but may not perform this action on it."""

    status, code = 403, "forbidden"


class NotFound(Problem):
    """The resource does not exist or is not visible to the caller, who cannot distinguish the two."""

    status, code = 404, "not_found"

    def __init__(self, message: str = "Not Found", **more: Any) -> None:
        super().__init__(message, **more)


def require_found(found: T | None) -> T:
    if found is None:
        raise NotFound()
    return found


class MethodNotAllowed(Problem):
    status, code = 405, "method_not_allowed"


class Conflict(Problem):
    status, code = 409, "conflict"


class PreconditionFailed(Problem):
    status, code = 412, "precondition_failed"


class TooLarge(Problem):
    status, code = 413, "too_large"


class TargetTooLong(Problem):
    status, code = 414, "target_too_long"


class UnsupportedMediaType(Problem):
    status, code = 415, "unsupported_media_type"


class Invalid(Problem):
    """The request is well-formed, but a value is invalid. `faults` lists all invalid fields at once."""

    status, code = 422, "validation_failed"

    def __init__(self, message: str = "Validation Failed", **more: Any) -> None:
        super().__init__(message, **more)

    @classmethod
    def at(cls, field: str, message: str, *, code: str = "invalid") -> Self:
        return cls(faults=[Fault(field=field, code=code, message=message)])


class TooManyRequests(Problem):
    """The same request can succeed later. The response always has `Retry-After`."""

    status, code = 429, "rate_limited"

    def __init__(self, message: str, *, retry_after_s: int = 60, **more: Any) -> None:
        super().__init__(message, **more)
        self.headers.setdefault("Retry-After", str(retry_after_s))


class Unavailable(Problem):
    """Nothing was done, and the same request can succeed later. The response always has `Retry-After`."""

    status, code = 503, "unavailable"

    def __init__(self, message: str, *, retry_after_s: int = 2, **more: Any) -> None:
        super().__init__(message, **more)
        self.headers.setdefault("Retry-After", str(retry_after_s))


class OperatorError(Exception):
    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy
