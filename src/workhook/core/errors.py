"""The one family of errors that reaches a caller. Each area renders it in its own shape (`http.problems`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

FAULTS_MAX = 100  # in one answer: a small request can have very many faults
SHOWN_MAX_CHARS = 80


def shown(text: str) -> str:
    """What somebody sent, short enough to be told again."""
    return text if len(text) <= SHOWN_MAX_CHARS else text[: SHOWN_MAX_CHARS - 3] + "..."


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
        """What is wrong, a sentence each; at least one."""
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


class CannotStart(Exception):
    """A process that cannot begin: what is wrong, and what to do about it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy
