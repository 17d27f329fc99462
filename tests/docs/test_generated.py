"""Every generated page is current, and an outdated page is reported."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from scripts import write_verify
from scripts.check_repository import ROOT, generated_violations

GENERATORS = sorted(path.stem for path in (ROOT / "scripts").glob("write_*.py"))


@pytest.mark.parametrize("name", GENERATORS)
def test_the_page_is_current(name: str) -> None:
    generator = importlib.import_module(f"scripts.{name}")
    assert generator.PAGE.read_text(encoding="utf-8") == generator.render(), f"run: python -m scripts.{name}"


def test_an_outdated_page_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / "verify.md"
    changed.write_text(write_verify.render().replace("sha256", "sha1"), encoding="utf-8")
    monkeypatch.setattr(write_verify, "PAGE", changed)
    assert [line for line in generated_violations(ROOT) if "write_verify" in line] == [
        f"{changed}: out of date; run `python -m scripts.write_verify`"
    ]
