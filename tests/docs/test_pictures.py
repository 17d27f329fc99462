"""The pictures of the README are there, small, and described."""

from __future__ import annotations

import re
from pathlib import Path

from tests.pictures.__main__ import BYTES_MAX

ROOT = Path(__file__).parents[2]


def test_the_pictures_of_the_readme_are_there() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = {ROOT / each for each in re.findall(r'(?:src|srcset)="([^"]+)"', readme)}
    assert shown == set((ROOT / "docs" / "pictures").iterdir())
    assert len(shown) == 4
    assert all(each.stat().st_size <= BYTES_MAX for each in shown)
    assert all(len(each) > 20 for each in re.findall(r'<img[^>]*alt="([^"]*)"', readme))
