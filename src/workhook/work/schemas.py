"""What the schemas of every resource of Area A share."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import UnsetType

V = TypeVar("V")


def given(value: V | UnsetType, otherwise: V) -> V:
    """A parameter, or what holds where it is absent."""
    return otherwise if isinstance(value, UnsetType) else value


class Done(msgspec.Struct):
    """It was deleted, paused, canceled: there is no record to show."""

    success: bool = True
