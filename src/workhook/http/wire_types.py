"""Values with different types in JSON and in the code (times), and types that many responses share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from workhook.core import json
from workhook.core.clock import parse_rfc3339
from workhook.core.records import LINK, MOMENT

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"}, examples=["2026-11-20T09:00:00Z"]), MOMENT]
"""UTC with `Z`, to the second or to the millisecond."""

Url = Annotated[str, Meta(extra_json_schema={"format": "uri"}), LINK]
"""An absolute URL that starts with the base of the request."""

UNSERVED = "For clients that require the key: nothing is served there."
Unserved = Annotated[Url, Meta(description=UNSERVED)]
"""A link for clients that expect its key."""

WIRE_TYPE = "x-wire-type"
"""Key in an annotation's extra JSON Schema: the JSON type of a value that has another type in the code."""


def wire_number(description: str, **schema: object) -> Meta:
    """Describe a number that has another type in the code. `schema` has its limits."""
    return Meta(extra_json_schema={WIRE_TYPE: "number", **schema}, description=description)


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
# RFC 3339, 5.6; `datetime.fromisoformat` accepts more.
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})")
# An offset whose unescaped `+` was decoded as a space in a query.
_LOST_PLUS = re.compile(r"(?<=[0-9]) (?=\d{2}:\d{2}$)")


def with_plus(text: str) -> str:
    """Restore the `+` of an offset, which a query decodes as a space."""
    return _LOST_PLUS.sub("+", text.strip())


def read_moment(raw: object) -> int:
    """Parse a time to milliseconds since the epoch. Raises `ValueError`."""
    wanted = "a time such as 2026-11-20T09:00:00Z, with Z or an offset"
    if not isinstance(raw, str) or not _MOMENT.fullmatch(raw.strip()):
        raise ValueError(wanted)
    return _in_range(raw.strip().upper(), wanted)


def read_day_or_moment(raw: object) -> int:
    """Parse a time or a date to milliseconds since the epoch. A bare date is midnight UTC. Raises `ValueError`."""
    if isinstance(raw, str) and _DATE.fullmatch(raw.strip()):
        return _in_range(f"{raw.strip()}T00:00:00Z", "a date that exists, such as 2026-11-20")
    try:
        return read_moment(raw)
    except ValueError as error:
        raise ValueError(f"a date such as 2026-11-20, or {error}") from None


def _in_range(text: str, wanted: str) -> int:
    try:
        found = parse_rfc3339(text)
    except ValueError:
        raise ValueError(wanted) from None
    if not 0 <= found < YEAR_9999:
        raise ValueError("a time from 1970 to 9998")
    return found


YEAR_9999 = parse_rfc3339("9999-01-01T00:00:00Z")


_JSON_TYPES: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


def with_wire_type(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with its JSON type, adding a type if it only enumerates values.

    Client generators accept enumerated values of a single type, so mixtures become one option per type. They make
    properties with a default required, so the default is moved to the description.
    """
    shown = dict(schema)
    if (wire := shown.pop(WIRE_TYPE, None)) is not None:
        shown["type"] = wire
    if "properties" in shown:
        shown["properties"] = {name: _default_in_words(each) for name, each in shown["properties"].items()}
    if "type" in shown or not {"enum", "const"} & shown.keys():
        return shown
    values = shown["enum"] if "enum" in shown else [shown["const"]]
    kinds = list(dict.fromkeys(_JSON_TYPES[type(each)] for each in values))
    if len(kinds) == 1:
        return {**shown, "type": kinds[0]}
    del shown["enum"]
    return {**shown, "anyOf": [_option(kind, values) for kind in kinds]}


def _option(kind: str, values: Sequence[Any]) -> dict[str, Any]:
    own = [each for each in values if _JSON_TYPES[type(each)] == kind]
    whole = kind == "null" or (kind == "boolean" and len(own) == len((True, False)))
    return {"type": kind} if whole else {"type": kind, "enum": own}


def _default_in_words(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "default" not in schema:
        return schema
    shown = {key: value for key, value in schema.items() if key != "default"}
    description = str(shown.get("description", ""))
    if (default := schema["default"]) is not None and "default" not in description.lower():
        shown["description"] = f"{description} Default: `{json.encode(default).decode()}`.".lstrip()
    return shown


def has_nul(raw: object) -> bool:
    """Return whether the value contains NUL, the only character that PostgreSQL's text cannot store.

    Iterative, because lists may be nested deeper than the call stack allows.
    """
    waiting = [raw]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if "\0" in value:
                return True
        elif isinstance(value, Mapping):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, Sequence):
            waiting += value
    return False
