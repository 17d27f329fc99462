"""Reads JSON of other programs: what is wrong with it is told with its place.

Every key may be missing or null, as exports of different years differ; a value of the wrong type is a fault. Keys that
nobody asks for are not looked at.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, get_args

import msgspec

from workhook.core.errors import Malformed, Number, say, shown
from workhook.core.json import decode_untrusted, is_too_deep, values_in

S = TypeVar("S", bound=msgspec.Struct)

FAULTS_MAX = 20  # what is told of one file
VALUES_MAX = 1_000_000
"""Values of one file: objects, lists, texts, numbers."""
ENTRIES_MAX = 20_000
"""Entries of one list of it: a project of more tasks is not read at once."""

_TOO_DEEP = "it is nested too deeply"  # `web.frame.refusals` translates it
_SURROGATE = re.compile("[\ud800-\udfff]")


class NotUsable(Exception):
    """A file that is not what it has to be: every fault of it in words, at most `FAULTS_MAX`."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


def parse_json(data: bytes) -> object:
    """JSON in UTF-8, -16 or -32, with or without a byte order mark, and with halves of characters, which some programs
    leave where they cut a text. Raises `NotUsable` that says where it ends being JSON."""
    found: object
    if "\0" in data[:4].decode("latin-1"):
        data = _as_utf_8(data)
    if values_in(data) > VALUES_MAX:
        raise NotUsable([say("it has more than {} values; part it into several files", Number(VALUES_MAX))])
    with suppress(Malformed):  # the slower parser takes more, and says where it fails
        found = decode_untrusted(data)
        return found
    try:
        found = json.loads(data, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        wrong = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise NotUsable([say("it is not JSON: {}", wrong)]) from None
    except RecursionError:
        raise NotUsable([_TOO_DEEP]) from None
    except UnicodeDecodeError:
        raise NotUsable(["it is neither UTF-8 nor UTF-16 or -32; save the file in UTF-8"]) from None
    except _NoNumberError as error:
        raise NotUsable([say("it is not JSON: {}", error)]) from None
    except ValueError:  # Python reads no number of more digits
        raise NotUsable([say("it has a number of more than {} digits", Number(sys.get_int_max_str_digits()))]) from None
    if is_too_deep(found):
        raise NotUsable([_TOO_DEEP])
    return found


def _as_utf_8(data: bytes) -> bytes:
    """JSON in UTF-16 or -32, with halves of characters."""
    try:
        return data.decode(json.detect_encoding(data), "surrogatepass").encode("utf-8", "surrogatepass")
    except UnicodeError:
        raise NotUsable(["it is neither UTF-8 nor UTF-16 or -32; save the file in UTF-8"]) from None


class _NoNumberError(ValueError):
    """`NaN` or `Infinity`."""


def _refuse(constant: str) -> object:
    raise _NoNumberError(f"{constant} is no number of JSON")


def clean(text: str) -> str:
    """Text that both databases hold: without NUL, and with a mark for halves of characters."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "")


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """To find them takes msgspec a fifth of a millisecond, and a board has very many cards."""
    return msgspec.structs.fields(kind)


@dataclass(frozen=True)
class Node:
    """An object of the file. What is missing or null reads as empty; what has another type is noted in `faults`."""

    values: Mapping[str, Any]
    path: str
    faults: list[str] = field(default_factory=list)

    def read(self, kind: type[S], **known: Any) -> S:
        """A struct of which each field is `known` or is read from the key that it has in JSON, by its type."""
        readers = {str: self.text, bool: self.flag, float: self.number, list[str]: self.texts}
        values = dict(known)
        for each in _fields(kind):
            if each.name in known:
                continue
            if each.type in readers:
                values[each.name] = readers[each.type](each.encode_name)
            else:
                (item,) = get_args(each.type)
                values[each.name] = [node.read(item) for node in self.nodes(each.encode_name)]
        return kind(**values)

    def text(self, key: str) -> str:
        value = self._value(key, str, "text")
        return clean(value) if isinstance(value, str) else ""

    def flag(self, key: str) -> bool:
        return self._value(key, bool, "true or false") is True

    def number(self, key: str) -> float:
        """Of a position; what has none stands behind those that have one."""
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self._value(key, type(None), "a number")
            return float("inf")
        return value

    def scalar(self, key: str) -> str:
        """Text, a number, or true or false; as text."""
        value = self.values.get(key)
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value) if isinstance(value, (int, float)) else self.text(key)

    def texts(self, key: str) -> list[str]:
        found = []
        for at, value in enumerate(self._entries(key)):
            if isinstance(value, str):
                found.append(clean(value))
            elif value is not None:
                self.note(f"{key}[{at}]", "text", value)
        return found

    def node(self, key: str) -> Node:
        return Node(self._value(key, dict, "an object") or {}, f"{self.path}{key}.", self.faults)

    def nodes(self, key: str) -> Iterator[Node]:
        for at, value in enumerate(self._entries(key)):
            if isinstance(value, dict):
                yield Node(value, f"{self.path}{key}[{at}].", self.faults)
            elif value is not None:
                self.note(f"{key}[{at}]", "an object", value)

    def _entries(self, key: str) -> list[Any]:
        """A list that is not longer than one that is read; nothing is made of another."""
        found: list[Any] = self._value(key, list, "a list") or []
        if len(found) <= ENTRIES_MAX:
            return found
        if len(self.faults) < FAULTS_MAX:
            name = f"{self.path}{key}" or "the list"
            self.faults.append(
                say("{} has {} entries; at most {} are read", name, Number(len(found)), Number(ENTRIES_MAX))
            )
        return []

    def _value(self, key: str, kind: type, wanted: str) -> Any:
        """What is there and of this type, else None."""
        value = self.values.get(key)
        if value is None or isinstance(value, kind):
            return value
        self.note(key, wanted, value)
        return None

    def note(self, key: str, wanted: str, value: object) -> None:
        """Add a fault: what has to be at the key, and what is."""
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(f"{self.path}{key} has to be {wanted}, and is {name_of(value)}")


def name_of(value: object) -> str:
    """A value of JSON in words."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {shown(repr(value))}"
        case str():
            return f"the text {shown(clean(value))!r}"
        case list():
            return "a list"
        case _:
            return "an object"
