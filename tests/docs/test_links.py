"""Links between pages have existing targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOT_PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
PAGES = sorted([*(ROOT / each for each in ROOT_PAGES), *(ROOT / "docs").rglob("*.md")])


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings as code hosts generate them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", each.strip().lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_has_an_existing_target(page: Path) -> None:
    missing = []
    for target, _, anchor in (link.partition("#") for link in re.findall(r"\]\(([^):]+)\)", page.read_text())):
        file = page.parent / target if target else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            missing.append(f"{target}#{anchor}")
    assert missing == []


def test_every_page_is_linked() -> None:
    linked = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    }
    lonely = [page for page in (ROOT / "docs").rglob("*.md") if page.resolve() not in linked]
    assert lonely == []
