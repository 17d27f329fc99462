"""Shapes that every resource of Area A answers with."""

from __future__ import annotations

import msgspec


class Done(msgspec.Struct):
    """It was deleted, paused, canceled: there is no record to show."""

    success: bool = True
