"""Reads the parameters of a request into a msgspec struct and reports all faults at once.

The struct is the single declaration of an operation's parameters. Its types contain the limits, which are checked here
and shown in the OpenAPI document. A field of type `UnsetType` may be absent, and one that may be None can be cleared.
The types below express rules that JSON Schema cannot.

    class ProjectEdit(msgspec.Struct):
        title: Title | UnsetType = UNSET
        avatar: WebAddress | None | UnsetType = UNSET

    change = parameters.gather(ProjectEdit, call.query, await call.json_object(strict_type=True))
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import islice
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, UnsetType, inspect

from workhook.core import json
from workhook.core.errors import (
    FAULTS_MAX,
    Fault,
    Invalid,
    Message,
    Problem,
    compose,
    must_be,
    or_null,
    phrase,
    say,
    shown,
)
from workhook.core.money import AMOUNT_MAX_MINOR, CURRENCIES, HUNDREDTHS_MAX, parse_hundredths, parse_money
from workhook.core.text import one_line
from workhook.core.urls import is_http_url
from workhook.http.calls import repeated
from workhook.http.operations import Queries, Query
from workhook.http.wire_types import (
    WIRE_TYPE,
    has_nul,
    read_day_or_moment,
    read_moment,
    wire_number,
    with_plus,
    with_wire_type,
)

T = TypeVar("T", bound=msgspec.Struct)

TITLE_MAX_CHARS = 255
TEXT_MAX_BYTES = 64 * 1024
ADDRESS_MAX_CHARS = 2048


@dataclass(frozen=True)
class Transform:
    """Annotation for a string that is transformed before its limits are checked: a value, a list item or a key."""

    step: Callable[[str], str]


@dataclass(frozen=True)
class Rule:
    """Annotation for a rule on a string or an object. `complaint` returns the accepted values if the rule is broken."""

    complaint: Callable[[Any], str | None]

    @classmethod
    def accepts(cls, fits: Callable[[Any], object], wanted: str) -> Rule:
        """Return a rule that accepts a value if `fits` is true for it. `wanted` describes accepted values in faults."""
        return cls(lambda value: None if fits(value) else wanted)


@dataclass(frozen=True)
class Converter:
    """Annotation for a value with another type than in JSON, such as a time or an amount of money.

    `step` receives the value from JSON or from the query, and raises `ValueError` with the accepted values. In JSON
    the value must be one of `types`. `mend` repairs damage to the text from URL decoding.
    """

    step: Callable[[object], Any]
    types: tuple[type, ...] = (str,)
    mend: Callable[[str], str] | None = None


OfLimitedSize = Rule.accepts(
    lambda value: len(json.encode(value)) <= TEXT_MAX_BYTES, compose("at most {} KiB of JSON", TEXT_MAX_BYTES // 1024)
)
"""Annotates an object whose encoded size is limited, because every event and response of its record contains it."""

ON_ONE_LINE = Transform(one_line)
"""Annotates names, titles and labels: a line break becomes a space, wherever the text is entered."""
IN_CAPITALS = Transform(lambda text: text.strip().upper() if text.isascii() else text)
Title = Annotated[str, Meta(min_length=1, max_length=TITLE_MAX_CHARS), ON_ONE_LINE]
LongText = Annotated[
    str,
    Meta(description="At most 64 KiB of UTF-8."),
    Rule.accepts(
        lambda text: len(text.encode()) <= TEXT_MAX_BYTES, compose("at most {} KiB of text", TEXT_MAX_BYTES // 1024)
    ),
]
WebAddress = Annotated[
    str,
    Meta(max_length=ADDRESS_MAX_CHARS, extra_json_schema={"format": "uri"}),
    Transform(str.strip),
    Rule.accepts(lambda text: is_http_url(text) and text.isprintable() and " " not in text, "an http or https URL"),
]
Currency = Annotated[
    str,
    Meta(description="ISO 4217; lower case is accepted.", extra_json_schema={"enum": sorted(CURRENCIES)}),
    IN_CAPITALS,
    Rule.accepts(CURRENCIES.__contains__, "an ISO 4217 currency code, such as EUR"),
]
"""Three upper-case letters, internally and in responses."""

Moment = Annotated[
    int,
    Meta(extra_json_schema={WIRE_TYPE: "string", "format": "date-time"}, description="RFC 3339, with Z or an offset."),
    Converter(read_moment, mend=with_plus),
]
"""Milliseconds since the epoch."""
DAY_OR_MOMENT = {
    WIRE_TYPE: "string",
    "anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}],
}
"""The JSON Schema of a date or a time."""
DayOrMoment = Annotated[
    int,
    Meta(
        extra_json_schema=DAY_OR_MOMENT,
        description="RFC 3339 with Z or an offset, or a date (YYYY-MM-DD), which is midnight UTC.",
    ),
    Converter(read_day_or_moment, mend=with_plus),
]
"""Milliseconds since the epoch; a bare date is midnight UTC."""
Money = Annotated[
    Decimal,
    wire_number("An amount with at most as many decimal places as its currency.", minimum=0, maximum=AMOUNT_MAX_MINOR),
    Converter(parse_money, (int, float)),
]
"""A non-negative amount. `money.to_minor` converts it to minor units."""
CreditsAmount = Annotated[
    int,
    wire_number("With at most two decimal places.", minimum=0, maximum=HUNDREDTHS_MAX),
    Converter(parse_hundredths, (int, float)),
]
"""Hundredths of a credit, not negative."""


def gather(
    shape: type[T],
    query: Mapping[str, Sequence[str]],
    body: Mapping[str, Any],
    path: str = "",
    *,
    resource: str | None = None,
) -> T:
    """Return the parameters as `shape`, each from the body or otherwise from the query.

    Query text is converted to the field's type; in a body the JSON type must match. `path` is the prefix of field names
    in faults: `invoice_items[0].`. `resource` is the name of the record in faults of the webhook API. Raises `Invalid`
    listing every missing, unknown or invalid field.
    """
    fields = _fields(shape)
    remedies: Mapping[str, str] = getattr(shape, "REMEDIES", {})
    names = dict.fromkeys([*body, *query])
    faults = [
        Fault(field=path + name, message=f"{path}{name} cannot be written: {remedies[name]}")
        for name in names
        if name in remedies
    ]
    faults += unknown((name for name in names if name not in fields and name not in remedies), path)
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if not field.several and len(query.get(name, ())) > 1:
            faults.append(repeated(path + name))
            continue
        try:
            if name in body:
                values[field.name] = field.convert(body[name], strict=True, path=path + name)
            elif name in query:
                values[field.name] = field.convert(field.from_query(query[name]), strict=False, path=path + name)
            elif field.required:
                faults.append(Fault(field=path + name, code="missing", message=say("{} is required", path + name)))
        except Invalid as nested:
            faults += nested.faults
        except ValueError as error:
            faults.append(Fault(field=path + name, message=must_be(path + name, error)))
    if faults:
        raise Invalid(faults=[msgspec.structs.replace(each, resource=resource) for each in faults])
    return shape(**values)


def takes(shape: type[msgspec.Struct], name: str) -> bool:
    """Return whether `shape` has this parameter and keeps its JSON value, unlike a time or an amount of money."""
    field = _fields(shape).get(name)
    return field is not None and field.read is None and field.item is None and field.part is None


def fault_of(shape: type[msgspec.Struct], name: str, value: object) -> str | None:
    """Return why the API would not store this value of a parameter unchanged, or None if it would."""
    try:
        kept = _fields(shape)[name].convert(value, strict=True, path=name)
    except Invalid as problem:
        return problem.message
    except ValueError as error:
        return f"it must be {error}"
    return None if kept == value else f"it must be written as {shown(str(kept))!r}"


def unknown(names: Iterable[str], path: str = "") -> list[Fault]:
    """Return a fault for each unknown name, at most `FAULTS_MAX`."""
    return [
        Fault(field=path + shown(name), code="unknown", message=say("unknown parameter {}", path + shown(name)))
        for name in islice(names, FAULTS_MAX)
    ]


def documented(shape: type[msgspec.Struct], *, or_body: bool = False) -> Queries:
    """Return the fields of `shape` as query parameters of the OpenAPI document.

    With `or_body`, none of them is required in the query.
    """
    queries = []
    for name, field in _fields(shape).items():
        schema = msgspec.json.schema(field.kind)
        shown: dict[str, Any] = _resolved_schema(schema, schema.pop("$defs", {}))
        if not field.json:
            _write_null_as_text(shown)
        is_required = field.required and not or_body
        queries.append(Query(name, str(shown.pop("description", "")), shown, is_required, field.json))
    found = Queries(queries)
    found.shape = shape
    return found


_EXCLUDE_EMPTY = frozenset({"anyOf", "const", "enum", "format", "minLength", "pattern"})  # keys of a schema


def _write_null_as_text(schema: dict[str, Any]) -> None:
    """Replace null by an empty string, which means null in a query (`_Field.from_query`)."""
    null = {"type": "null"}
    if null in schema.get("anyOf", ()):
        options = [each for each in schema.pop("anyOf") if each != null]
        only = options[0] if len(options) == 1 else {}
        if only:  # readers of the document find a description only at the parameter itself
            schema.setdefault("description", only.pop("description", ""))
        if only.get("type") == "string" and not only.keys() & _EXCLUDE_EMPTY:
            schema |= only
        elif only.get("type") == "string" and "enum" in only:
            schema |= {**only, "enum": [*only["enum"], ""]}
        else:
            schema["anyOf"] = [*options, {"type": "string", "const": ""}]
    if None in schema.get("enum", ()):
        schema["enum"] = ["" if each is None else each for each in schema["enum"]]
        schema["type"] = "string"


def _resolved_schema(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Return the schema with references resolved and JSON types filled in.

    An object allows only the properties of its struct, because `gather` rejects others.
    """
    if isinstance(schema, list):
        return [_resolved_schema(each, definitions) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    if (reference := schema.get("$ref")) is not None:
        return _resolved_schema(definitions[reference.removeprefix("#/$defs/")], definitions)
    shown = {key: _resolved_schema(value, definitions) for key, value in schema.items()}
    return with_wire_type({**shown, "additionalProperties": False} if "properties" in schema else shown)


@dataclass(frozen=True)
class _Field:
    """One field of a shape: its type without `UnsetType`, and its annotations."""

    name: str  # of the attribute
    kind: Any
    kind_but_null: Any
    required: bool
    nullable: bool
    several: bool  # a query repeats the parameter for each item of a list
    json: bool  # an object or a list of objects, which a query encodes as JSON
    item: type[msgspec.Struct] | None  # the struct of a list's items, which follow the same rules
    part: type[msgspec.Struct] | None  # the field's own struct, which follows the same rules
    read: Converter | None
    whole: bool  # an integer
    prepare: Callable[[Any], Any]
    rules: tuple[Callable[[Any], str | None], ...]

    def from_query(self, texts: Sequence[str]) -> object:
        """Return the value, or all values for a list. An empty string is null if the field is nullable."""
        if self.nullable and texts == [""]:
            return None
        if self.json:
            return _json_of(texts[0])
        return list(texts) if self.several else texts[0]

    def convert(self, raw: object, *, strict: bool, path: str = "") -> Any:
        """Convert a value. Raises `ValueError` with the accepted values, and `Invalid` for faults in a list's items."""
        if raw is None and self.nullable:
            return None
        if has_nul(raw):
            raise ValueError("text without NUL characters")
        raw = self.prepare(raw)
        if (read := self.read) is not None:
            if read.mend is not None and not strict and isinstance(raw, str):
                raw = read.mend(raw)
            return read.step(raw if not strict or isinstance(raw, read.types) else None)
        if self.item is not None:
            return _items(self.item, self.kind, raw, path)
        if self.part is not None:
            if not isinstance(raw, dict):
                raise ValueError("an object")
            return gather(self.part, {}, raw, f"{path}.")
        if self.whole and isinstance(raw, float) and raw.is_integer():
            raw = int(raw)  # `2.0` is the integer 2 (JSON Schema, 6.1.1)
        try:
            if self.whole and isinstance(raw, str) and not _DIGITS.fullmatch(raw):
                raise msgspec.ValidationError  # in a query, msgspec would read `1e1` as ten
            # In a query, msgspec would convert the text "null" to None.
            value = msgspec.convert(raw, self.kind if strict else self.kind_but_null, strict=strict)
        except msgspec.ValidationError:
            raise ValueError(_wanted_words(inspect.type_info(self.kind))) from None
        if isinstance(value, str | dict):
            for rule in self.rules:
                if complaint := rule(value):
                    raise ValueError(complaint)
        return value


_DIGITS = re.compile(r"-?[0-9]+")


def _json_of(text: str) -> object:
    data = text.encode()
    try:
        value = json.decode_untrusted(data)
        twice = json.repeated_names(data, value)
    except Problem:
        raise ValueError("JSON") from None
    if twice:
        raise ValueError(f"JSON without {', '.join(twice)} more than once in an object")
    return value


def _items(item: type[msgspec.Struct], kind: Any, raw: object, path: str) -> list[msgspec.Struct]:
    """Convert all items, collecting the faults of each: `invoice_items[0].qty`."""
    if not isinstance(raw, list) or not all(isinstance(each, dict) for each in raw):
        raise ValueError("a list of objects")
    limits = next((note for note in _notes(kind) if isinstance(note, Meta)), None)
    low, high = (limits.min_length, limits.max_length) if limits else (None, None)
    if len(raw) < (low or 0) or (high is not None and len(raw) > high):
        raise ValueError(_between("a list", low, high, " objects"))
    found: list[msgspec.Struct] = []
    faults: list[Fault] = []
    for index, each in enumerate(raw):
        try:
            found.append(gather(item, {}, each, f"{path}[{index}]."))
        except Invalid as nested:
            faults += nested.faults
    if faults:
        raise Invalid(faults=faults)
    return found


@cache
def _fields(shape: type[msgspec.Struct]) -> Mapping[str, _Field]:
    return {each.encode_name: _field(each) for each in msgspec.structs.fields(shape)}


def _field(info: msgspec.structs.FieldInfo) -> _Field:
    options = [option for option in _options(info.type) if option is not UnsetType]
    kind: Any = Union[tuple(options)]  # noqa: UP007  # built at run time
    notes = _notes(kind)
    plain = [_plain(option) for option in options]
    items = [get_args(each)[0] for each in plain if get_origin(each) is list]
    structs = [each for each in items if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    parts = [each for each in plain if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    is_json = bool(structs or parts) or any(get_origin(each) is dict for each in plain)
    return _Field(
        name=info.name,
        kind=kind,
        kind_but_null=Union[tuple(each for each in options if each is not types.NoneType)],  # noqa: UP007  # dynamic
        required=info.required,
        nullable=types.NoneType in options,
        several=bool(items) and not is_json,
        json=is_json,
        item=structs[0] if structs else None,
        part=parts[0] if parts else None,
        read=next((note for note in notes if isinstance(note, Converter)), None),
        whole=set(plain) - {types.NoneType} == {int},
        prepare=preparer(kind),
        rules=tuple(note.complaint for note in notes if isinstance(note, Rule)),
    )


@cache
def preparer(kind: Any) -> Callable[[Any], Any]:
    """Return a function that applies a type's `Transform` steps to a value, to list items and to object keys."""
    inner = [get_args(each)[0] for each in map(_plain, _options(kind)) if get_origin(each) in (list, dict)]
    steps, inner_steps = _steps(kind), [step for each in inner for step in _steps(each)]

    def prepare(value: Any) -> Any:
        if inner_steps and isinstance(value, list):
            return [_stepped(each, inner_steps) for each in value]
        if inner_steps and isinstance(value, dict):
            return {_stepped(name, inner_steps): each for name, each in value.items()}
        return _stepped(value, steps)

    return prepare


def _steps(kind: Any) -> list[Callable[[str], str]]:
    return [note.step for note in _notes(kind) if isinstance(note, Transform)]


def _stepped(value: Any, steps: Sequence[Callable[[str], str]]) -> Any:
    for step in steps if isinstance(value, str) else ():
        value = step(value)
    return value


def _notes(kind: Any) -> list[Any]:
    return [note for option in _options(kind) if get_origin(option) is Annotated for note in get_args(option)[1:]]


def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _plain(option: Any) -> Any:
    return get_args(option)[0] if get_origin(option) is Annotated else option


# --- descriptions of types in error messages --------------------------------------------------------------------------


def _wanted_words(kind: inspect.Type) -> Message:
    match kind:
        case inspect.Metadata():
            return _wanted_words(kind.type)
        case inspect.UnionType():
            *others, last = map(_wanted_words, kind.types)
            if len(others) == 1 and last == "null":
                return or_null(others[0])
            return phrase(" or ".join([*others, last]))
        case inspect.StrType():
            return _between("text", kind.min_length, kind.max_length, " characters")
        case inspect.IntType():
            return _between("a whole number", kind.ge, kind.le)
        case inspect.FloatType():
            return _between("a number", kind.ge, kind.le)
        case inspect.LiteralType():
            values = kind.values
            return compose("one of {}", ", ".join(map(str, values))) if len(values) > 1 else phrase(f'"{values[0]}"')
        case inspect.ListType() | inspect.VarTupleType():
            more = phrase(", at least one," if kind.min_length else "")
            return compose("a list of {}{}", _wanted_words(kind.item_type), more)
        case inspect.BoolType():
            return phrase("true or false")
        case inspect.NoneType():
            return phrase("null")
        case inspect.DictType():
            each = _between(str(_wanted_words(kind.value_type)), None, kind.max_length, " keys")
            return compose("an object whose every value is {}", str(each))
        case _:
            return phrase("an object")


def _between(noun: str, low: float | None, high: float | None, unit: str = "") -> Message:
    if low is not None and high is not None:
        return compose(f"{noun} of {{}} to {{}}{unit}" if unit else f"{noun} from {{}} to {{}}", low, high)
    if high is not None:
        return compose(f"{noun} of at most {{}}{unit}", high)
    return phrase(noun) if low is None else compose(f"{noun} of at least {{}}{unit}", low)
