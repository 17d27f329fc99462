"""The page of settings says what the settings say."""

from __future__ import annotations

from scripts import write_settings_reference


def test_the_page_is_current() -> None:
    page = write_settings_reference.PAGE.read_text()
    assert page == write_settings_reference.render(), "run: python -m scripts.write_settings_reference"
