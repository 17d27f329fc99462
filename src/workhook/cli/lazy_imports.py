"""Lazy loading of Workhook's modules.

Help and a mistyped option need neither a database nor a server, whose libraries take a second to load. The command line
therefore imports its own modules under `lazy_imports`: each `from workhook.area import module` in them returns a module
that is loaded when an attribute is first accessed. `from workhook.area.module import name` is such an access.
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
        """Find the module with a lazy loader. Packages are not lazy: their modules are found through them."""
        spec = PathFinder.find_spec(name, path, target) if name.startswith("workhook.") else None
        if spec is None or spec.loader is None or spec.submodule_search_locations is not None:
            return None
        spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def lazy_imports() -> Iterator[None]:
    """Load Workhook's modules imported within the block only when they are first used."""
    finder = _LazyFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def not_installed(name: str) -> Iterator[None]:
    """Make an optional dependency of another library appear uninstalled within the block."""
    sys.modules[name] = None  # type: ignore[assignment]  # makes imports of it fail
    try:
        yield
    finally:
        del sys.modules[name]
