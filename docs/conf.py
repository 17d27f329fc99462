"""The static site of the documentation: `make docs` builds it with Sphinx, and every warning is an error."""

from __future__ import annotations

import re
import shutil
from pathlib import Path, PurePosixPath

from sphinx.application import Sphinx

project = "Workhook"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "README"
html_theme = "furo"
html_title = "Workhook"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
myst_heading_anchors = 4
nitpicky = True
suppress_warnings = ["myst.header", "misc.highlighting_failure"]  # examples shortened with "…" are no valid JSON


def prepare(_app: Sphinx, name: str, source: list[str]) -> None:
    """Turn links to pages outside `docs/` into text. Append to each index a contents of the pages it links to."""
    text = re.sub(r"\[([^\]]+)\]\((?:\.\./)+[A-Z]+\.md\)", r"\1", source[0])
    if PurePosixPath(name).name == "README":
        linked = dict.fromkeys(re.findall(r"\]\(([\w/-]+)\.md\)", text))
        pages = [each for each in linked if "/" not in each or each.endswith("/README")]
        text += "\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"
    source[0] = text


def add_indexes(app: Sphinx, _error: Exception | None) -> None:
    """Make each README the index of its folder, too."""
    for page in Path(app.outdir).rglob("README.html"):
        shutil.copyfile(page, page.with_name("index.html"))


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("source-read", prepare)
    app.connect("build-finished", add_indexes)
