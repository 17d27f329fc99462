"""Every block of every page is run or compared by a test, or listed in `NOT_RUN` with a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import NOT_RUN, PAGES, ROOT, blocks, every_block, reason_not_run
from tests.docs.reader import TUTORIALS


def unpacked_blocks(source: str) -> Iterator[tuple[str, str]]:
    """Yield page and language of each call of `blocks` whose result is unpacked, which checks the number of blocks."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.List | ast.Tuple):
            continue
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == blocks.__name__:
            words = [each.value for each in call.args if isinstance(each, ast.Constant)]
            yield str(words[0]), str(words[1]) if len(words) > 1 else "sh"


@pytest.fixture(scope="module")
def tested() -> set[tuple[str, str]]:
    sources = [file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py")]
    found = {pair for source in sources if "blocks(" in source for pair in unpacked_blocks(source)}
    return found | {(page, "sh") for page in TUTORIALS}  # these are followed block by block, however many there are


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_tested_or_has_a_reason(page: str, tested: set[tuple[str, str]]) -> None:
    left = [
        f"{language} {text.partition(chr(10))[0]}"
        for language, text in every_block(page)
        if (page, language) not in tested and not reason_not_run(page, language, text)
    ]
    assert left == [], "run these in a test that unpacks `blocks(page, language)`, or say in `NOT_RUN` why none does"


@pytest.mark.parametrize(("page", "language", "beginning"), [each for each in NOT_RUN if not each[0].endswith("/")])
def test_every_reason_belongs_to_a_block(page: str, language: str, beginning: str) -> None:
    assert any(tongue == language and text.startswith(beginning) for tongue, text in every_block(page))


@pytest.mark.parametrize("page", PAGES)
def test_every_fence_is_closed(page: str) -> None:
    """Otherwise the rest of the page would be a block, or its blocks prose, and these tests would miss them."""
    fences = [
        line
        for line in Path(ROOT, page).read_text(encoding="utf-8").splitlines()
        if line.lstrip()[:3] in ("```", "~~~")
    ]
    assert len(fences) == 2 * len(every_block(page))
