"""Parsing of JSON files from other programs, with faults that state their location.

Every key may be missing or null, because export formats have changed over the years. A value of the wrong type is a
fault. Unknown keys are ignored.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from workhook.core.errors import Malformed, Number, say, shown
from workhook.core.json import decode_untrusted, has_more_values, is_too_deep

S = TypeVar("S", bound=msgspec.Struct)

FAULTS_MAX = 20  # faults reported for one file
VALUES_MAX = 1_000_000
ENTRIES_MAX = 20_000
"""The maximum number of entries in a list."""
COUNT_MAX = 1_000_000

_TOO_DEEP = "the file is nested too deeply"  # `web.frame.refusals` translates it
_NOT_UNICODE = "the file is not UTF-8, UTF-16, or UTF-32; save it as UTF-8"
_SURROGATE = re.compile("[\ud800-\udfff]")


class InvalidFile(Exception):
    """An invalid file, with at most `FAULTS_MAX` faults in words."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


def parse_json(data: bytes) -> object:
    """Parse JSON in UTF-8, UTF-16 or UTF-32, with or without a byte order mark. Raises `InvalidFile`.

    Lone surrogates are accepted, because some programs leave them where they truncate text.
    """
    found: object
    if "\0" in data[:4].decode("latin-1"):
        try:
            data = data.decode(json.detect_encoding(data), "surrogatepass").encode("utf-8", "surrogatepass")
        except UnicodeError:
            raise InvalidFile([_NOT_UNICODE]) from None
    if has_more_values(data, VALUES_MAX):
        raise InvalidFile([say("the file has more than {} values; split it into several files", Number(VALUES_MAX))])
    with suppress(Malformed):  # the slower parser below accepts more input and reports positions
        found = decode_untrusted(data)
        return found
    try:
        found = json.loads(data, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        wrong = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise InvalidFile([say("the file is not valid JSON: {}", wrong)]) from None
    except RecursionError:
        raise InvalidFile([_TOO_DEEP]) from None
    except UnicodeDecodeError:
        raise InvalidFile([_NOT_UNICODE]) from None
    except ValueError:  # raised for more digits than Python converts
        raise InvalidFile([say("a number has more than {} digits", Number(sys.get_int_max_str_digits()))]) from None
    if is_too_deep(found):
        raise InvalidFile([_TOO_DEEP])
    return found


def _refuse(constant: str) -> object:
    """Refuse `NaN` and `Infinity`."""
    raise InvalidFile([say("the file is not valid JSON: {}", f"{constant} is not valid in JSON")])


def clean(text: str) -> str:
    """Return text that both databases can store, without NUL and with lone surrogates replaced."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "")


class Key:
    """An annotation that lists the keys of a field. The first non-empty value is used.

    A dotted key leads into nested objects. `by` is the reader, needed where the type does not determine it. Without
    this annotation, a field is read from the key with its name.
    """

    def __init__(self, *keys: str, by: Callable[[Node, str], Any] | None = None) -> None:
        self.paths = [key.split(".") for key in keys]
        self.by = by


class Derived:
    """An annotation with a function that derives the field from the object."""

    def __init__(self, read: Callable[[Node], Any]) -> None:
        self.read = read


@dataclass(frozen=True)
class Node:
    """An object in the file. Missing and null values read as empty. Values of other types are recorded in `faults`."""

    values: Mapping[str, Any]
    path: str
    faults: list[str] = field(default_factory=list)

    def read(self, kind: type[S], **known: Any) -> S:
        """Return a struct whose fields are taken from `known` or read as annotated."""
        read = {name: reader(self) for name, reader in _readers(kind) if name not in known}
        return kind(**known, **read)

    def text(self, key: str) -> str:
        value = self._value(key, str, "text")
        return clean(value) if isinstance(value, str) else ""

    def flag(self, key: str) -> bool:
        return self._value(key, bool, "true or false") is True

    def number(self, key: str) -> float:
        """Return a position, or infinity if there is none."""
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self._value(key, type(None), "a number")
            return float("inf")
        return value

    def scalar(self, key: str) -> str:
        """Return a text, number or boolean as text."""
        value = self.values.get(key)
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value) if isinstance(value, (int, float)) else self.text(key)

    def count(self, key: str) -> int:
        """Return a count, or 0 if it is out of range."""
        found = self.number(key)
        return int(found) if 0 <= found < COUNT_MAX else 0

    def length(self, key: str) -> int:
        """Return the number of objects in a list."""
        return sum(1 for _ in self.nodes(key))

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
        """Return a list, or an empty one with a fault if it is too long."""
        found: list[Any] = self._value(key, list, "a list") or []
        if len(found) <= ENTRIES_MAX:
            return found
        if len(self.faults) < FAULTS_MAX:
            name = f"{self.path}{key}" or "the list"
            self.faults.append(
                say("{} has {} entries; the maximum is {}", name, Number(len(found)), Number(ENTRIES_MAX))
            )
        return []

    def _value(self, key: str, kind: type, wanted: str) -> Any:
        """Return the value, or None with a fault if it has another type."""
        value = self.values.get(key)
        if value is None or isinstance(value, kind):
            return value
        self.note(key, wanted, value)
        return None

    def note(self, key: str, wanted: str, value: object) -> None:
        """Record the fault that a value has another type than expected."""
        fault = f"{self.path}{key} must be {wanted}, but is {name_of(value)}"
        if len(self.faults) < FAULTS_MAX and fault not in self.faults:
            self.faults.append(fault)


_BY_TYPE: Mapping[Any, Callable[[Node, str], Any]] = {
    str: Node.text, bool: Node.flag, float: Node.number, int: Node.count, list[str]: Node.texts,
}  # fmt: skip


@cache
def _readers(kind: type[msgspec.Struct]) -> list[tuple[str, Callable[[Node], Any]]]:
    hints = get_type_hints(kind, include_extras=True)
    return [(name, _reader(name, hints[name])) for name in kind.__struct_fields__]


def _reader(name: str, hint: Any) -> Callable[[Node], Any]:
    plain, marks = (hint.__origin__, hint.__metadata__) if get_origin(hint) is Annotated else (hint, ())
    mark = marks[0] if marks else Key(name)
    if isinstance(mark, Derived):
        return mark.read
    read = mark.by or _BY_TYPE.get(plain) or _reader_of_structs(plain)
    if [len(each) for each in mark.paths] == [1]:  # a fast path for nearly all keys, since boards have very many cards
        return lambda node: read(node, mark.paths[0][0])
    return lambda node: _first(node, mark.paths, read)


def _reader_of_structs(plain: Any) -> Callable[[Node, str], Any]:
    if get_origin(plain) is list:
        (item,) = get_args(plain)
        return lambda node, key: [each.read(item) for each in node.nodes(key)]
    return lambda node, key: node.node(key).read(plain)


def _first(node: Node, paths: Iterable[Sequence[str]], read: Callable[[Node, str], Any]) -> Any:
    found: Any = None
    for *above, key in paths:
        at = node
        for each in above:
            at = at.node(each)
        if found := read(at, key):
            return found
    return found


def name_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {shown(repr(value))}"
        case str():
            return f"the text “{shown(clean(value))}”"
        case list():
            return "a list"
        case _:
            return "an object"
