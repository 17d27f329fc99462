"""The page of permissions says what the policy table says."""

from __future__ import annotations

from scripts import write_permissions_reference


def test_the_page_is_current() -> None:
    page = write_permissions_reference.PAGE.read_text()
    assert page == write_permissions_reference.render(), "run: python -m scripts.write_permissions_reference"
