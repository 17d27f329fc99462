"""An installation as described in `docs/operators/install.md` takes less than 240 MB, measured in the tests'
environment."""

from __future__ import annotations

import re
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import workhook

ROOT = Path(__file__).parents[2]
LIMIT_MB = 240
COMPILED = 1.35
"""Bytes of a compiled module per byte of its source, measured over all modules."""
REMOVED = {"pygments"}
"""Packages that the documented installation removes, besides pip and setuptools."""

pytestmark = pytest.mark.one_database


def _locked() -> set[str]:
    lines = (ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8").splitlines()
    found = [Requirement(line.rstrip(" \\")) for line in lines if re.match(r"[a-z].*==", line)]
    return {each.name for each in found if each.marker is None or each.marker.evaluate()}


def _bytes(paths: list[Path]) -> float:
    sizes = [(each.suffix == ".py", each.stat().st_size) for each in paths if each.is_file()]
    return sum(size * (1 + COMPILED if is_source else 1) for is_source, size in sizes)


def test_the_installation_is_small() -> None:
    guide = (ROOT / "docs" / "operators" / "install.md").read_text(encoding="utf-8")
    [removed] = re.findall(r"pip uninstall --yes (.+)", guide)
    assert set(removed.split()) == {"pip", "setuptools", *REMOVED}
    sizes = {
        name: _bytes([Path(str(each.locate())) for each in distribution(name).files or () if each.suffix != ".pyc"])
        for name in _locked() - REMOVED
    }
    own = [each for each in Path(workhook.__file__).parent.rglob("*") if each.suffix != ".pyc"]
    total = (sum(sizes.values()) + _bytes(own)) / 1e6
    largest = sorted(sizes, key=lambda each: -sizes[each])[:10]
    assert total <= LIMIT_MB, [(each, round(sizes[each] / 1e6, 1)) for each in largest]
    stated = re.search(r"takes about (\d+) MB", guide)
    assert stated
    assert abs(total - int(stated[1])) < 8, f"it takes {total:.0f} MB now"


def test_no_command_needs_a_removed_package() -> None:
    """rich needs pygments only to highlight program code, which no command prints."""
    sources = "".join(each.read_text(encoding="utf-8") for each in Path(workhook.__file__).parent.rglob("*.py"))
    assert not re.search(r"import pygments|rich\.(syntax|traceback|markdown|pretty)", sources)
