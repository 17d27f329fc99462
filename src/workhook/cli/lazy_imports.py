"""Modules of Workhook that are loaded when they are first used.

The help and a mistyped option need neither a database nor a server, whose libraries take a second to load. So the
command line imports its own modules under `lazy_imports`: each `from workhook.area import module` in them gives a
module that is loaded at the first access to what is in it. `from workhook.area.module import name` is such an access.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType


class _LazyFinder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module with a loader that waits. A package is loaded at once: its modules are found in it."""
        spec = PathFinder.find_spec(name, path, target) if name.startswith("workhook.") else None
        if spec is None or spec.loader is None or spec.submodule_search_locations is not None:
            return None
        spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def lazy_imports() -> Iterator[None]:
    """Within the block, modules of Workhook that are imported for the first time are not loaded yet."""
    finder = _LazyFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def not_installed(name: str) -> Iterator[None]:
    """Within the block, a library that another one uses if it is there seems not to be there."""
    sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails then, as Python documents
    try:
        yield
    finally:
        del sys.modules[name]
