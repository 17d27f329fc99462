"""Records: each is declared once, as a struct, and its JSON form is derived from the declaration.

    class Column(Record):
        '''A column of a board.'''

        id: Annotated[str, resource_id("col")]
        title: str
        stage: Stage | None
        created_at: Timestamp
        rank: Annotated[int, HIDDEN]

A record contains values as the program uses them: times are integers, and JSON columns are strings. Annotations
describe the JSON form. `to_response` converts a record to `Wire[Column]`, a struct with the same fields in the same
order except those that are `HIDDEN`. `storage.record_rows` derives table columns and row converters from the same
declaration, and `scripts.event_schemas` the schemas of events.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from workhook.core.clock import to_millis_text


class Record(msgspec.Struct, frozen=True):
    """Base class of records."""


R = TypeVar("R", bound=Record)


class FieldMark(msgspec.Struct, frozen=True):
    """A property of a record's field, given as an annotation, that JSON Schema does not show."""


class JsonForm(FieldMark, frozen=True):
    """The field has another type in JSON: `kind`, which `convert` produces. None stays None.

    `beside` names a field of the same record that `convert` also receives, such as the currency of an amount.
    """

    kind: Any
    convert: Callable[..., object]
    beside: str | None = None


class Stored(FieldMark, frozen=True):
    """The name of the field's column if it differs, or None if the table has no column for the field."""

    column: str | None


class JsonName(FieldMark, frozen=True):
    """The field's name in JSON if it differs."""

    name: str


class EventSchema(FieldMark, frozen=True, eq=False):
    """Additions to the field's type in event schemas. If they contain `type`, they replace it.

    `optional` means that the field may be missing there.
    """

    schema: Mapping[str, object] | None = None
    optional: bool = False


HIDDEN = FieldMark()
"""Marks a field that JSON does not include."""

NOT_STORED = Stored(None)
"""Marks a field whose value is supplied when the record is created from a row."""

DESCRIBED = EventSchema()
"""The field has its description (`msgspec.Meta`) in event schemas, too."""
MOMENT = EventSchema({"format": "date-time"})
LINK = EventSchema({"format": "uri"})
CURRENCY = EventSchema({"pattern": "^[A-Z]{3}$", "description": "ISO 4217"})


Timestamp = Annotated[int, JsonForm(str, to_millis_text), MOMENT]
"""Milliseconds since the epoch; `2026-11-20T09:00:00.123Z` in JSON."""


def resource_id(prefix: str, *, optional: bool = False) -> EventSchema:
    """Declare an ID as created by `core.ids.new_id(prefix)`. For `optional`, see `EventSchema`."""
    return EventSchema({"pattern": f"^{prefix}_[0-9a-z]{{26}}$"}, optional=optional)


class RecordField(msgspec.Struct, frozen=True):
    """The declaration of a record's field. `base_type` is its type without annotations and without None."""

    name: str
    hint: Any
    base_type: Any
    nullable: bool
    marks: tuple[FieldMark, ...]

    def mark(self, kind: type[M]) -> M | None:
        """Return the outermost mark of this kind, or None."""
        return next((each for each in self.marks if isinstance(each, kind)), None)

    @property
    def json_name(self) -> str:
        mark = self.mark(JsonName)
        return self.name if mark is None else mark.name


M = TypeVar("M", bound=FieldMark)


@cache
def fields_of(struct: type[msgspec.Struct]) -> tuple[RecordField, ...]:
    hints = get_type_hints(struct, include_extras=True)
    return tuple(_field(name, hints[name]) for name in struct.__struct_fields__)


def shown_fields(struct: type[msgspec.Struct]) -> list[RecordField]:
    return [each for each in fields_of(struct) if HIDDEN not in each.marks]


def _field(name: str, hint: Any) -> RecordField:
    plain, nullable, marks = hint, False, list[FieldMark]()
    while True:
        options = _options(plain)
        if get_origin(plain) is Annotated:
            marks += [each for each in plain.__metadata__ if isinstance(each, FieldMark)]
            plain = plain.__origin__
        elif type(None) in options:
            rest = [each for each in options if each is not type(None)]
            plain, nullable = rest[0] if len(rest) == 1 else Union[tuple(rest)], True  # noqa: UP007  # dynamic
        else:
            return RecordField(name, hint, plain, nullable, tuple(marks))


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else ()


# --- the JSON form ----------------------------------------------------------------------------------------------------

if TYPE_CHECKING:

    class Wire(msgspec.Struct, Generic[R]):
        """The JSON form of a record. Its fields are read only by the JSON encoder."""

else:

    class Wire:
        """`Wire[Task]` is the struct returned by `wire_of(Task)`."""

        def __class_getitem__(cls, record: type[Record]) -> type[msgspec.Struct]:
            return wire_of(record)


@cache
def wire_of(record: type[Record]) -> type[msgspec.Struct]:
    """Return the struct of the record's JSON form, which has the record's name and docstring."""
    shown = [(each.json_name, _json_type(each.hint)[0]) for each in shown_fields(record)]
    return msgspec.defstruct(record.__name__, shown, namespace={"__doc__": record.__doc__}, module=record.__module__)


def _json_type(hint: Any) -> tuple[Any, Callable[[Any], object] | JsonForm | None]:
    if get_origin(hint) is Annotated:
        kind, convert = _json_type(hint.__origin__)
        for each in hint.__metadata__:
            if isinstance(each, JsonForm):
                kind = each.kind
                convert = each.convert if each.beside is None else each
        rest = tuple(
            each for each in hint.__metadata__ if isinstance(each, EventSchema) or not isinstance(each, FieldMark)
        )
        return (Annotated[(kind, *rest)] if rest else kind), convert
    if options := _options(hint):
        made = [_json_type(each) for each in options]
        convert = next((each for _, each in made if each is not None), None)
        return Union[tuple(kind for kind, _ in made)], convert  # noqa: UP007  # built at run time
    if get_origin(hint) is tuple:
        kind, each_one = _json_type(get_args(hint)[0])
        assert not isinstance(each_one, JsonForm), "what is in a tuple has no field beside it"
        if each_one is not None:
            made_list = list[kind]  # type: ignore[valid-type]  # a type built at run time
            return made_list, lambda values: [each_one(each) for each in values]
    if isinstance(hint, type) and issubclass(hint, Record):
        return wire_of(hint), to_response
    return hint, None


def to_response(record: R) -> Wire[R]:
    return _responder(record.__class__)(record)


@cache
def _responder(record: type[R]) -> Callable[[R], Wire[R]]:
    text, names = converted(record, {each.name: f"record.{each.name}" for each in fields_of(record)})
    respond: Callable[[R], Wire[R]] = compiled(f"lambda record: make({text})", {"make": wire_of(record), **names})
    return respond


def converted(record: type[Record], sources: Mapping[str, str]) -> tuple[str, dict[str, object]]:
    """Return the source text of the arguments that create a JSON form, and the values of the names in it.

    `sources` has the source text of each field's value.
    """
    arguments, names = [], dict[str, object]()
    for field in shown_fields(record):
        name, source = field.name, sources[field.name]
        convert = _json_type(field.hint)[1]
        if convert is None:
            arguments.append(source)
            continue
        if isinstance(convert, JsonForm) and convert.beside is not None:
            names[f"convert_{name}"], given = convert.convert, f"{source}, {sources[convert.beside]}"
        else:
            names[f"convert_{name}"], given = convert, source
        call = f"convert_{name}({given})"
        arguments.append(f"None if {source} is None else {call}" if field.nullable else call)
    return ", ".join(arguments), names


def compiled(function: str, names: Mapping[str, object]) -> Any:
    """Compile a function from source text made of field names. A loop over the fields would take twice as long."""
    return eval(function, dict(names))  # noqa: S307  # our own source text
