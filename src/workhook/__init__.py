"""Workhook: work management in which every change is a signed, stored, replayable webhook."""

from typing import TYPE_CHECKING

__version__: str  # set on first access, because a checkout asks git

if not TYPE_CHECKING:  # otherwise a type checker would accept any other name

    def __getattr__(name):
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = _find_version()
        return found


def _find_version() -> str:
    """Return the version that the wheel was built with, or the current version of the source tree."""
    from pathlib import Path

    package = Path(__file__).resolve().parent
    built = package / "version.txt"  # created by hatch_build.py, only in wheels
    if built.is_file():
        return built.read_text(encoding="utf-8").strip()
    from runpy import run_path

    root = package.parents[1]
    return str(run_path(str(root / "hatch_version.py"))["find_version"](root))
