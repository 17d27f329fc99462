"""JSON Schemas of what operations take and give, as components of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from workhook.http.wire_types import with_wire_type

Schema = dict[str, Any]

_PLACE = "#/components/schemas/"
_SHAPE = "Shape"  # what is only a name inside the code: HookShape is shown as Hook


class Schemas:
    """`components`: a schema for each struct, by name; `of` gives the schema of a type that was collected."""

    def __init__(self, given: Iterable[Any], taken: Iterable[Any]) -> None:
        """`given`: types of answers. `taken`: types of bodies. Anything that is not a type is passed over."""
        given = [each for each in given if _is_type(each)]
        taken = [each for each in taken if _is_type(each)]
        unique = list({repr(each): each for each in (*given, *taken)}.values())
        schemas, components = msgspec.json.schema_components(unique, ref_template=_PLACE + "{name}")
        _complete(components, given)
        _close(components, taken)
        self._names = _names(components)
        self._filled = False
        self._by_type: dict[str, Schema] = {
            repr(each): self._polished(schema) for each, schema in zip(unique, schemas, strict=True)
        }
        self.components: dict[str, Schema] = {
            self._names[name]: self._polished(schema) for name, schema in components.items()
        }
        self._filled = True

    def of(self, wanted: Any) -> Schema:
        """Of a type that was collected, or of a schema: that one. A schema with a title becomes a component."""
        if _is_type(wanted):
            return self._by_type[repr(wanted)]
        shown: Schema = self._polished(wanted)
        return shown

    def _polished(self, schema: Any) -> Any:
        """Without titles and with the names that are shown; what may be null says so in its type."""
        if isinstance(schema, list):
            return [self._polished(each) for each in schema]
        if not isinstance(schema, Mapping):
            return schema
        shown: Schema = {}
        for key, value in schema.items():
            if key in ("properties", "$defs"):
                shown[key] = {name: self._polished(each) for name, each in value.items()}
            elif key == "$ref":
                shown[key] = _PLACE + self._names[value.removeprefix(_PLACE)]
            elif key in ("examples", "example", "const", "enum", "default"):
                shown[key] = value
            elif key != "title":
                shown[key] = self._polished(value)
        shown = _null_in_type(with_wire_type(shown))
        return self._as_component(schema["title"], shown) if self._filled and "title" in schema else shown

    def _as_component(self, name: str, schema: Schema) -> Schema:
        known = self.components.setdefault(name, schema)
        assert known == schema, f"two schemas are called {name}"
        return {"$ref": _PLACE + name}


def _is_type(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping)


def _names(components: Mapping[str, Schema]) -> dict[str, str]:
    short = {name: name.removesuffix(_SHAPE) for name in components}
    taken = list(short.values())
    return {name: each if taken.count(each) == 1 else name for name, each in short.items()}


def _null_in_type(schema: Schema) -> Schema:
    """`anyOf` of one simple type and null becomes `type: [that, null]`."""
    options = schema.get("anyOf", [])
    plain = [each for each in options if each != {"type": "null"}]
    if len(options) != 2 or len(plain) != 1 or not isinstance(plain[0].get("type"), str):
        return schema
    merged = {**plain[0], **{key: value for key, value in schema.items() if key != "anyOf"}}
    merged["type"] = [plain[0]["type"], "null"]
    if None not in (values := merged.get("enum", [None])):
        merged["enum"] = [*values, None]
    return merged


def _complete(components: Mapping[str, Schema], given: Iterable[Any]) -> None:
    """An answer has every field that cannot be absent, also those that the code gives a default."""
    for struct in _structs(given):
        schema = components.get(struct.cls.__name__)
        if schema is None or struct.cls.__struct_config__.omit_defaults:
            continue
        schema["required"] = [field.encode_name for field in struct.fields if not _may_be_absent(field)]
        for name, shown in schema["properties"].items():
            default = shown.pop("default", None)
            if name == "success" and default is not None:
                shown["const"] = default
            if name.endswith("_at"):
                _set_time(shown)


def _close(components: Mapping[str, Schema], taken: Iterable[Any]) -> None:
    """A body has no fields but those of its struct: `http.parameters` refuses them."""
    for struct in _structs(taken):
        components[struct.cls.__name__]["additionalProperties"] = False


def _set_time(schema: Schema) -> None:
    for each in schema.get("anyOf", [schema]):
        if each.get("type") == "string":
            each.setdefault("format", "date-time")


def _may_be_absent(field: inspect.Field) -> bool:
    """Not required, yet without a default: it is UNSET."""
    return not field.required and field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT


def _structs(types: Iterable[Any]) -> list[inspect.StructType]:
    """Every struct that the types are made of."""
    found: dict[str, inspect.StructType] = {}

    def visit(kind: Any) -> None:
        if isinstance(kind, inspect.StructType):
            if kind.cls.__name__ in found:
                return
            found[kind.cls.__name__] = kind
            for field in kind.fields:
                visit(field.type)
        for name in ("type", "item_type", "value_type"):
            if isinstance(inner := getattr(kind, name, None), inspect.Type):
                visit(inner)
        for inner in (*getattr(kind, "types", ()), *getattr(kind, "item_types", ())):
            visit(inner)

    for each in inspect.multi_type_info(list(types)):
        visit(each)
    return list(found.values())
