"""What a command line gives becomes what a command takes, without Pydantic.

Typer converts with Pydantic, which takes longer to import than many a command takes to run, and 10 MiB for as long as
`serve` runs. Hardly an option of ours needs it: they are text, one of a few words, or seen to by a parser of ours.
What is not certain here, every mistake above all, goes Typer's own way.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast, get_args

from typer.core import TyperArgument, TyperOption

if TYPE_CHECKING:
    from typer._click.core import Context, Parameter
    from typer._coercion import RuntimeParam

_WHOLE = re.compile(r"0|[1-9][0-9]{0,14}")
_UNCERTAIN = object()


def plainly(parameters: list[Parameter]) -> list[Parameter]:
    """The same parameters; they convert as this module says."""
    for each in parameters:
        # Typer's own place for it, filled at first use. A Typer that has another converts all by itself.
        if isinstance(each, (TyperOption, TyperArgument)) and getattr(each, "_runtime_param", _UNCERTAIN) is None:
            each._runtime_param = cast("RuntimeParam", _PLAIN)
    return parameters


class _Plain:
    def coerce(self, value: Any, param: TyperOption | TyperArgument, ctx: Context) -> Any:
        """Raises `typer.BadParameter`."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        if not (several and isinstance(value, str)):
            converted = [_converted(param, each) for each in (value if several else [value])]
            if _UNCERTAIN not in converted:
                return converted if several else converted[0]
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


_PLAIN = _Plain()


def _converted(param: TyperOption | TyperArgument, value: Any) -> Any:
    """One value, `_UNCERTAIN` where Typer has to say."""
    described = param.type_descriptor
    if (parser := described.parameter_info.parser) is not None:
        return parser(value)
    kind = get_args(described.annotation)[0] if described.is_list else described.annotation
    if isinstance(value, str):
        if kind is str or value in (described.choices or ()):
            return value
        if kind is int and _WHOLE.fullmatch(value) and not described.is_ranged:
            return int(value)
    return value if kind is int and type(value) is int and not described.is_ranged else _UNCERTAIN
