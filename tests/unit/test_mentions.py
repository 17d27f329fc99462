"""Mentions in texts: the stored ones are exactly those that a page highlights."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workhook.web.frame.markdown import PAGE_CHARS_MAX, Prose
from workhook.work.discussion.markdown import (
    NAMED_MAX,
    STEPS_MAX,
    names_in_markdown,
    names_in_markup,
    naming_pieces,
    plain_words,
)
from workhook.work.discussion.markup import clean

_MARKED = re.compile(r'<span class="mention">@([^<]+)</span>')
PEOPLE = ["ada", "bob-2", "eve"]


@pytest.mark.parametrize(
    ("text", "logins"),
    [
        ("@Ada, ask @bob-2! @ADA", ["ada", "bob-2"]),
        ("**@ada** and (@bob-2)", ["ada", "bob-2"]),
        ("- [ ] @ada\n\n| @bob-2 |\n| --- |\n| @eve |", ["ada", "bob-2", "eve"]),
        ("> @ada\n\n# @eve", ["ada", "eve"]),
        ("`@ada`", []),
        ("```\n@ada\n```", []),
        ("    @ada", []),
        ("[@ada](https://example.com) <https://example.com/@ada> https://example.com/@ada", []),
        ("ada@example.com x@ada.example @@ada /@ada .@ada -@ada @ada- @ada_ @", []),
        ("\\@ada", ["ada"]),
        ("<b title='@ada'>", ["ada"]),  # comments have no HTML, so this is text
        (f"@{'x' * 40}", []),
        ("nobody", []),
        ("", []),
    ],
)
def test_mentions_are_found_in_comments(text: str, logins: list[str]) -> None:
    assert list(names_in_markdown(text).logins) == logins
    marked = dict.fromkeys(each.lower() for each in _MARKED.findall(str(Prose(PEOPLE)(text))))
    assert list(marked) == [each for each in logins if each in PEOPLE]


@pytest.mark.parametrize(
    ("body", "logins"),
    [
        ("@Ada &amp; <b>@bob-2</b> &@eve", ["ada", "bob-2", "eve"]),
        ("<code>@ada</code><pre>@ada <b>@ada</b></pre>", []),
        ('<a href="https://example.com/>@ada">@ada</a> @eve', ["eve"]),
        ('<a href="https://example.com/@ada">x</a>', []),
        ("ada@example.com", []),
        ("<pre>@ada</pre><p>@eve</p>", ["eve"]),
        ("1 < 2 @ada", ["ada"]),
    ],
)
def test_mentions_are_found_in_replies(body: str, logins: list[str]) -> None:
    cleaned = clean(body)
    assert list(names_in_markup(cleaned).logins) == logins
    html = str(Prose(PEOPLE).reply(cleaned))
    assert [each.lower() for each in _MARKED.findall(html)] == logins
    assert re.sub(r'<span class="mention">(@[^<]+)</span>', r"\1", html) == cleaned


_LINK = '<a href="https://example.com/?a=>&b">'
_TAGS = (_LINK, "</a>", "<b>", "</b>", "<code>", "</code>", "<pre>")
PARTS = st.lists(st.sampled_from([*"<>&\"'`*[]() \na", "@ada", "@bob-2", "&lt;", *_TAGS]))


@given(PARTS)
def test_pages_highlight_exactly_the_mentioned_people(parts: list[str]) -> None:
    text = "".join(parts)
    marked = {each.lower() for each in _MARKED.findall(str(Prose(PEOPLE)(text)))}
    assert marked == set(names_in_markdown(text).logins) & set(PEOPLE)
    cleaned = clean(text)
    assert "".join(piece for piece, _ in naming_pieces(cleaned)) == cleaned
    assert not any("<" in piece for piece, names in naming_pieces(cleaned) if names)
    marked = {each.lower() for each in _MARKED.findall(str(Prose(PEOPLE).reply(cleaned)))}
    assert marked == set(names_in_markup(cleaned).logins) & set(PEOPLE)


def test_mentions_of_the_reader_are_highlighted_differently() -> None:
    assert str(Prose(PEOPLE, "Ada").reply("@ada <i>@eve</i>")) == (
        '<span class="mention mention-me">@ada</span> <i><span class="mention">@eve</span></i>'
    )


def test_an_unformatted_text_has_no_mentions() -> None:
    costly = "@ada " * (STEPS_MAX + 1)
    assert "mention" not in Prose(PEOPLE)(costly)
    assert list(names_in_markdown(costly).logins) == []


def test_the_number_of_mentions_is_limited() -> None:
    text = " ".join(f"@person-{number}" for number in range(NAMED_MAX + 5))
    assert len(text) < PAGE_CHARS_MAX
    first = tuple(f"person-{each}" for each in range(NAMED_MAX))
    assert names_in_markdown(text).logins == names_in_markup(text).logins == first


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("**a** *b* `c`\n\n- d\n- [e](https://example.com)", "a b c d e"),
        ("# T\nx\ny", "T x y"),
        ("```\ncode\n```\n\n<b>", "code <b>"),
        ("![a *cat*](https://example.com/cat.png)", "a cat"),
        ("| a | b |\n| --- | --- |\n| 1 | 2 |", "a b 1 2"),
        ("> " * 60 + "deep", "> " * 59 + "> deep"),
    ],
)
def test_a_quotation_contains_no_markup(text: str, words: str) -> None:
    assert plain_words(text) == words


# --- numbers of tasks -------------------------------------------------------------------------------------------------

TASKS = {12: "/acme/website/tasks/tsk_twelve", 3: "/acme/website/tasks/tsk_three"}
_LINKED = re.compile(r'<a class="task-link" href="/acme/website/tasks/tsk_[a-z]+">#([0-9]+)</a>')


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("#12, (#3) and **#12**!", {12, 3}),
        ("#12", {12}),
        ("- [ ] #12\n\n| #3 |\n| --- |\n| #99 |", {12, 3, 99}),
        ("# #12\n\n> fixes: #3.", {12, 3}),
        ("`#12`", set()),
        ("```\n#12\n```", set()),
        ("    #12", set()),
        ("[#12](https://example.com) https://example.com/#12 <https://example.com/a#3>", set()),
        ("#012 #0 #1234567890 ##12 a#12 /#12 .#12 #12a #12-a #12_ # 12", set()),
        ("acme/website#12", set()),
        ("\\#12", {12}),
        ("", set()),
    ],
)
def test_task_numbers_are_found_in_comments(text: str, numbers: set[int]) -> None:
    assert names_in_markdown(text).numbers == numbers
    html = str(Prose(PEOPLE, tasks=TASKS)(text))
    assert {int(each) for each in _LINKED.findall(html)} == numbers & TASKS.keys()
    assert html.count("task-link") == len(_LINKED.findall(html))
    assert "task-link" not in Prose(PEOPLE)(text)


@pytest.mark.parametrize(
    ("body", "numbers"),
    [
        ("#12 &amp; <b>#3</b>", {12, 3}),
        ("<code>#12</code><pre>#3</pre>", set()),
        ('<a href="https://example.com/#12">#12</a> #3', {3}),
        ("&#12; &#3;", set()),
        ("@ada #12", {12}),
    ],
)
def test_task_numbers_are_found_in_replies(body: str, numbers: set[int]) -> None:
    cleaned = clean(body)
    assert names_in_markup(cleaned).numbers == numbers
    html = str(Prose(PEOPLE, tasks=TASKS).reply(cleaned))
    assert {int(each) for each in _LINKED.findall(html)} == numbers
    assert re.sub(r"<span[^>]*>(@[^<]+)</span>", r"\1", _LINKED.sub(r"#\1", html)) == cleaned


@given(st.lists(st.sampled_from([*"<>&\"'`*[]() \na#", "#12", "#3", "#4", "@ada", "&#12;", *_TAGS])))
def test_pages_link_exactly_the_mentioned_tasks(parts: list[str]) -> None:
    text = "".join(parts)
    prose = Prose(PEOPLE, tasks=TASKS)
    assert {int(each) for each in _LINKED.findall(str(prose(text)))} == names_in_markdown(text).numbers & TASKS.keys()
    cleaned = clean(text)
    assert {int(each) for each in _LINKED.findall(str(prose.reply(cleaned)))} == (
        names_in_markup(cleaned).numbers & TASKS.keys()
    )
