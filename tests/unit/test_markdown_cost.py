"""The amount of work that a person's Markdown can cause, measured in executed lines of Python, so it is
machine-independent."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given, target
from hypothesis import strategies as st

from workhook.web.frame.markdown import PAGE_STEPS_MAX, Prose, _show
from workhook.work.discussion.markdown import QUOTE_STEPS_MAX, STEPS_MAX, names_in_markdown, plain_words, steps_for

TEXT_CHARS_MAX = 65_536
LINES_PER_STEP = 80
LINES_PER_CHAR = 40
LINES_MAX = STEPS_MAX * LINES_PER_STEP
"""Lines of Python that one text may execute, about a quarter of a second. Some precede the first counted step."""

OVERSHOOT = 3 * TEXT_CHARS_MAX
"""The pairs of a paragraph are counted together."""

PIECES = [
    "*", "**", "_", "__", "~~", "~", "`", "``", "[", "]", "](", "(", ")", "![", "[]", "[a]", "[a]: b\n", "[a]:", "<",
    ">", "<a@b.c>", "<http://a>", "<!--", "&", "&amp;", "&#1;", "\\", "|", "|a|a|\n|-|-|\n", "a|b\n-|-\n", "|\n",
    "- ", "- a\n", "1. ", "> ", "# ", "a", "a ", "a\n", "x\n", "\n", "\n\n", " ", "    ", "\t", "```\n", "=\n", "-\n",
    "a  \n", "http://", "http://a ", "https://a.b/c ", "http://((((", "http://xn--", "mailto:", "mailto:a@b ", "://",
    "@ada ", "#1 ", "@", "ä", "😀", "'\"", "'", "'[a](b \"c", "[a](<b", "%", "%%", "- [ ] ",
    "|" + "a|" * 31 + "\n|" + "-|" * 31 + "\n",
    "|" + "a|" * 7 + "\n|" + "-|" * 7 + "\n",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    Prose()("a http://a | @a")  # the first text loads the library


def lines_run(work: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def lines_allowed(text: str) -> int:
    return steps_for(text) * LINES_PER_STEP + len(text) * LINES_PER_CHAR


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Generate sequences of repeated pieces, truncated to a length that can be traced."""
    parts = draw(st.lists(st.tuples(st.lists(st.sampled_from(PIECES), min_size=1, max_size=3), st.integers(1, 200))))
    return "".join("".join(pieces) * times for pieces, times in parts)[: draw(st.sampled_from([100, 400, 1_000]))]


@given(texts())
@example("*![" * 19 + "*" * 400)
def test_the_worst_text_costs_no_more_than_its_length_allows(text: str) -> None:
    lines = lines_run(lambda: _show(text))
    target(lines / (len(text) + 1), label="lines per character")
    assert lines <= lines_allowed(text)


@pytest.mark.parametrize("piece", PIECES)
def test_a_repeated_piece_costs_no_more_than_its_length_allows(piece: str) -> None:
    text = (piece * 2_000)[:2_000]
    assert lines_run(lambda: _show(text)) <= lines_allowed(text)


def table(columns: int, chars: int, row: str = "x\n") -> str:
    head = "|" + "a|" * columns + "\n|" + "-|" * columns + "\n"
    return (head + row * chars)[:chars]


@pytest.mark.parametrize("columns", [2, 8, 32, 128, 240])
@pytest.mark.parametrize("row", ["x\n", "|\n", "> x\n", "|x\n"])
def test_rows_padded_by_a_table_are_counted_before_they_are_created(columns: int, row: str) -> None:
    text = table(columns, 992, row)
    shown: list[str] = []
    assert lines_run(lambda: shown.append(_show(text).html or "")) <= lines_allowed(text)
    assert len(shown[0]) < 60 * len(text)


def test_a_complete_table_is_rendered() -> None:
    text = "| a | b | c |\n| --- | --- | --- |\n" + "| 1 | 2 | 3 |\n" * 300
    assert (_show(text).html or "").count("<tr>") == 301


def test_a_repeated_link_definition_counts_each_time() -> None:
    text = "[a]: http://example.com/" + "b" * 16_000 + "\n\n" + "[a]" * 5_000
    assert len(_show(text).html or "") < 64 * STEPS_MAX
    assert len(_show(text[:17_000]).html or "") < 64 * STEPS_MAX


_WHOLE = {
    "table": table(32, TEXT_CHARS_MAX),
    "tables": table(4, 60) * 1_200,
    "mailboxes": "mailto:a@b " * 6_000,
    "brackets": "![" * 32_000,
    "markers": "*a" * 11_000 + "_b" * 11_000 + "c*" * 11_000,
    "opened addresses": "http://((((" * 6_000,
    "closed addresses": ("http://a" + ")" * 1_990) * 32,
    "domains": "http://xn--" * 6_000,
    "references": "".join(f"[{each}]: b\n" for each in range(7_000)),
    "titles": "[a](b \"c [a](b 'c [a](b (c " * 2_000,
}


@pytest.mark.parametrize("text", _WHOLE.values(), ids=_WHOLE)
def test_a_text_of_full_length_stays_within_the_steps(text: str) -> None:
    text = text[:TEXT_CHARS_MAX]
    assert _show(text).steps <= STEPS_MAX + OVERSHOOT
    before = time.thread_time()
    _show(text)
    names_in_markdown(text + " @ada")
    plain_words(text[:1_000])
    assert time.thread_time() - before < 3, "a third of a second is usual on a quiet machine"


def test_the_texts_of_a_page_share_a_budget() -> None:
    prose = Prose()
    costly = [f"{number} " + "*a* " * 2_000 for number in range(20)]
    shown = [str(prose(each)) for each in costly]
    formatted = [each for each in shown if "<em>" in each]
    assert 0 < len(formatted) < len(costly)
    assert sum(_show(each).steps for each in costly[: len(formatted)]) <= PAGE_STEPS_MAX + STEPS_MAX
    assert shown == [str(each) for each in map(Prose().__call__, costly)][:0] + shown, (
        "whether a text was remembered or not"
    )


def test_a_quotation_has_a_smaller_budget() -> None:
    assert QUOTE_STEPS_MAX < STEPS_MAX // 4
    assert lines_run(lambda: plain_words(table(32, 1_000))) <= (QUOTE_STEPS_MAX + 1_000) * LINES_PER_STEP


async def prepared(texts: list[str]) -> tuple[Prose, int]:
    """Return the prepared texts, and how often the event loop ran other tasks in the meantime."""
    preparing, turns = asyncio.create_task(Prose().prepare(texts)), 0
    while not preparing.done():
        await asyncio.sleep(0)
        turns += 1
    return await preparing, turns


def test_long_texts_are_parsed_in_a_thread_and_then_cached() -> None:
    texts = [f"{number}\n\n{'| a | b |' * 40} *c* `d`\n" * 40 for number in range(3)]
    prose, turns = asyncio.run(prepared(texts))
    assert turns > 5, "others are answered meanwhile"
    assert lines_run(lambda: [prose(text) for text in texts]) < 200, "nothing is parsed in the event loop"
