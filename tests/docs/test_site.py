"""The static site of `make docs` can be built, and a dead link fails the build."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.one_database


def build(docs: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build as the Makefile does, without the theme, whose own checks don't concern links."""
    options = ["-q", "-W", "-n", "--keep-going", "-b", "dummy", "-d", str(site / "doctrees"), "-D", "html_theme=basic"]
    command = [sys.executable, "-m", "sphinx", *options, str(docs), str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.whole
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    done = build(ROOT / "docs", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_dead_links_and_anchors_fail_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    shutil.copy(ROOT / "docs" / "conf.py", docs)
    (docs / "page.md").write_text("# Page\n\n## A section\n", encoding="utf-8")
    (docs / "README.md").write_text("# Docs\n\n[Page](page.md), [a section](page.md#a-section)\n", encoding="utf-8")
    assert build(docs, tmp_path / "good").returncode == 0
    (docs / "README.md").write_text(
        "# Docs\n\n[Page](page.md), [one](page.md#another), [two](gone.md#two)\n", encoding="utf-8"
    )
    done = build(docs, tmp_path / "bad")
    assert done.returncode == 1
    assert "'another'" in done.stderr
    assert "gone.md" in done.stderr
