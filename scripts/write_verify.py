"""Write the code on docs/integrators/verify.md from the snippets of the web app. `check_repository` compares the two.

python -m scripts.write_verify
"""

from __future__ import annotations

from pathlib import Path

from workhook.core.config import Settings
from workhook.web.hooks.snippets import get_snippets

PAGE = Path(__file__).parent.parent / "docs" / "integrators" / "verify.md"
HEADING = "## Code\n"
_INTRODUCTION = """
Replace `YOUR_WEBHOOK_SECRET`. The page **Verify signatures** of each webhook in the web app shows the same code.
"""
_FENCES = {"javascript": "js"}


def render() -> str:
    """Return the whole page, with the part from the heading on made from the snippets."""
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(HEADING)
    parts = [
        f"\n### {each.title}\n\n```{_FENCES.get(each.name, each.name)}\n{each.code().rstrip()}\n```\n"
        for each in get_snippets(str(Settings.header_prefix))
    ]
    return before + HEADING + _INTRODUCTION + "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
