"""What holds secrets does not show them where it is printed: a traceback, a log line, a debugger's list."""

from __future__ import annotations


class Secretive:
    """A base beside `msgspec.Struct`, and before it: `repr` names the type and nothing that is in it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"

    __str__ = __repr__
