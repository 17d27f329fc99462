"""The page of settings is generated from the settings."""

from __future__ import annotations

from pathlib import Path

from scripts import write_settings_reference
from tests.docs.pages import blocks
from workhook.core.config import load


def test_the_page_is_current() -> None:
    page = write_settings_reference.PAGE.read_text()
    assert page == write_settings_reference.render(), "run: python -m scripts.write_settings_reference"


def test_the_example_file_is_valid(tmp_path: Path) -> None:
    [written] = blocks("docs/operators/settings.md", "toml")
    (tmp_path / "workhook.toml").write_text(written, encoding="utf-8")
    settings = load({"data": str(tmp_path)}, {})
    assert settings.port == 8080
    assert settings.delivery_allow_networks == ("10.0.0.0/8", "192.168.0.0/16")
