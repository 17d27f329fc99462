"""The differences between two records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_WIDTH = 300


def differences(old: Path, new: Path) -> Iterator[str]:
    """Yield a line for each difference between the two records."""
    before, after = _entries(old), _entries(new)
    for key in before.keys() | after.keys():
        if key not in after or key not in before:
            yield f"{key}: only in {'the old' if key in before else 'the new'}"
    for key, entry in before.items():
        if key in after:
            yield from compared(key, entry, after[key])


def _entries(path: Path) -> dict[str, Any]:
    """Return the entries by operation, attempt, and number of the attempt."""
    found: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        name = "OpenAPI" if "openapi" in entry else f"{entry['operation']} | {entry['request']}"
        counts[name] = counts.get(name, 0) + 1
        found[f"{name} {counts[name]}" if counts[name] > 1 else name] = entry
    return found


def compared(place: str, old: Any, new: Any) -> Iterator[str]:
    """Yield a line for each difference between two JSON values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            yield from compared(f"{place} ▸ {name}", old.get(name, "(absent)"), new.get(name, "(absent)"))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from compared(f"{place} ▸ {index}", one, other)
    elif old != new or type(old) is not type(new):
        yield f"{place}: {_short(old)} → {_short(new)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WIDTH else text[:_WIDTH] + "…"
