"""What the schemas of every resource of the work API share."""

from __future__ import annotations

from typing import TypeVar, overload

import msgspec
from msgspec import UnsetType

V = TypeVar("V")


@overload
def if_set(value: V | UnsetType) -> V | None: ...
@overload
def if_set(value: V | UnsetType, otherwise: V) -> V: ...
def if_set(value: V | UnsetType, otherwise: V | None = None) -> V | None:
    """A parameter, or `otherwise` where it is absent."""
    return otherwise if isinstance(value, UnsetType) else value


class Done(msgspec.Struct):
    """Done: something was deleted, paused or canceled, and there is no record to show."""

    success: bool = True
