"""What is wrong with a value of a webhook's configuration, by its key: `hooks` says it, and others who get one ask."""

from __future__ import annotations

from collections.abc import Callable

CHECKS: dict[str, Callable[[object], str | None]] = {}
"""Filled by `hooks.config_keys`. A check answers a sentence, or None."""
