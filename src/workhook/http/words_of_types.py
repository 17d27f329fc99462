"""What a parameter has to be, in the words of an error."""

from __future__ import annotations

from msgspec import inspect


def wanted(kind: inspect.Type) -> str:
    """A type in the words of an error."""
    match kind:
        case inspect.Metadata():
            return wanted(kind.type)
        case inspect.UnionType():
            return " or ".join(wanted(each) for each in kind.types)
        case inspect.StrType():
            return between("text", kind.min_length, kind.max_length, " characters")
        case inspect.IntType():
            return between("a whole number", kind.ge, kind.le)
        case inspect.FloatType():
            return between("a number", kind.ge, kind.le)
        case inspect.LiteralType():
            return "one of " + ", ".join(map(str, kind.values)) if len(kind.values) > 1 else f'"{kind.values[0]}"'
        case inspect.ListType() | inspect.VarTupleType():
            return f"a list of {wanted(kind.item_type)}{', at least one,' if kind.min_length else ''}"
        case inspect.BoolType():
            return "true or false"
        case inspect.NoneType():
            return "null"
        case inspect.DictType():
            return between(f"an object whose values are each {wanted(kind.value_type)}", None, kind.max_length, " keys")
        case _:
            return "an object"


def between(what: str, low: float | None, high: float | None, unit: str = "") -> str:
    if low is not None and high is not None:
        return f"{what} of {low} to {high}{unit}" if unit else f"{what} from {low} to {high}"
    if high is not None:
        return f"{what} of at most {high}{unit}"
    return what if low is None else f"{what} of at least {low}{unit}"
