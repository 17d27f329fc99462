"""The page of the search: what it finds for whom, where each hit leads, and how the words are marked."""

from __future__ import annotations

import html
import re

import pytest

from tests.harness.server import Server
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, text_of
from workhook.web.search import marked, without_signs


def hits(page: str) -> list[tuple[str, str]]:
    """Address and title of each."""
    found = re.findall(r'<li>\s*<a href="([^"]+)"><svg.*?</svg> <bdi>(.*?)</bdi>', page, re.DOTALL)
    return [(address, html.unescape(re.sub(r"</?mark>", "", title))) for address, title in found]


def test_hits_lead_to_their_places(studio: Studio) -> None:
    word = f"zebra{studio.team.world.organization[-6:]}"
    task = studio.add_task(studio.add_column("To do"), f"Paint the {word}")
    comment = studio.call("POST", f"/tasks/{task}/task_comments", text=f"The {word} has stripes")["task_comment"]["id"]
    studio.call("PATCH", studio.project, title=f"{word.title()} and others")
    page = page_of(studio.member, "/search", q=word.upper())
    assert hits(page) == [
        (studio.base, f"{word.title()} and others"),
        (f"{studio.base}/tasks/{task}#comment-{comment}", f"Paint the {word}"),
        (f"{studio.base}/tasks/{task}", f"Paint the {word}"),
    ]
    assert f"The <mark>{word}</mark> has stripes" in page
    assert [address for address, _ in hits(page_of(studio.member, "/search", q=word, type="project"))] == [studio.base]
    tasks = page_of(studio.member, "/search", q=word, type="task", project=studio.team.world.full_name)
    assert [address for address, _ in hits(tasks)] == [f"{studio.base}/tasks/{task}"]
    assert "Searching in" in text_of(tasks)


def test_nobody_finds_what_they_may_not_see(server: Server, studio: Studio) -> None:
    """Neither what is private, as a client, nor what belongs to an organization of others."""
    word = f"yak{studio.team.world.organization[-6:]}"
    task = studio.add_task(studio.add_column("To do"), "Shave it")
    studio.call("POST", f"/tasks/{task}/task_comments", text=f"{word} in private", private=True)
    studio.call("POST", f"/tasks/{task}/task_comments", text=f"{word} for all")
    assert len(hits(page_of(studio.member, "/search", q=word))) == 2
    assert len(hits(page_of(studio.client, "/search", q=word))) == 1
    studio.call("PATCH", studio.project, title=word)
    with open_studio(server) as other:
        for q in (word, word[:5]):
            assert hits(page_of(other.owner, "/search", q=q)) == []
        assert other.owner.get(f"/search?q={word}&project={studio.team.world.full_name}").status_code == 404
        assert other.owner.get("/search?q=a&project=no/such").status_code == 404


def test_pages_of_results_and_that_there_are_more_than_are_found(studio: Studio) -> None:
    word = f"xerus{studio.team.world.organization[-6:]}"
    column = studio.add_column("To do")
    create = [{"action": "create", "column_id": column, "title": f"{word} {number}"} for number in range(51)]
    studio.call("POST", "/tasks/bulk", operations=create[:50])
    page = page_of(studio.owner, "/search", q=word)
    assert len(hits(page)) == 30
    assert "Some older results aren’t shown" not in page
    [more] = re.findall(r'href="(\?[^"]*)" rel="next"', page)
    rest = page_of(studio.owner, "/search" + html.unescape(more))
    assert len(set(hits(page) + hits(rest))) == 50
    studio.call("POST", "/tasks/bulk", operations=create[50:])
    assert "Some older results aren’t shown" in page_of(studio.owner, "/search", q=word)


def test_what_is_no_word_finds_nothing(studio: Studio) -> None:
    assert "Enter at least one letter" in page_of(studio.owner, "/search", q="*-%")
    assert "No results." in page_of(studio.owner, "/search", q="n0such")
    assert "No results." not in page_of(studio.owner, "/search")
    assert studio.owner.get("/search?q=a&cursor=x").status_code == 422
    assert studio.owner.get("/search?q=a&type=user").status_code == 422
    assert studio.owner.get("/search?q=" + "a" * 3000).status_code == 200


def test_hostile_texts_are_texts(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), HOSTILE, description=HOSTILE)
    page = page_of(studio.owner, "/search", q=HOSTILE)
    assert "<img" not in page[page.index("<main") :]
    assert (f"{studio.base}/tasks/{task}", HOSTILE) in hits(page)


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("A logo, the Logo", "logo", ["logo", "Logo"]),
        ("Catalogue of logos", "logo", ["logo"]),
        ("Café", "cafe", ["Café"]),
        ("ÀÉÎ x", "x", ["x"]),
        ("İstanbul", "istanbul", ["İstanbul"]),
        ("a.b", "b", ["b"]),
        ("on and on", "on o", ["on", "on"]),
        ("nothing", "other", []),
        ("", "a", []),
        ("text", "", []),
    ],
)
def test_words_are_marked_where_they_begin(text: str, words: str, found: list[str]) -> None:
    parts = marked(text, words)
    assert "".join(part for part, _ in parts) == text
    assert [part for part, is_word in parts if is_word] == found


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Seats **on the phone**, *before* `the` ~~old~~ basket", "Seats on the phone, before the old basket"),
        ("## Stages | Seats | | --- | ---: | | Pier", "Stages Seats Pier"),
        ("> quoted - [x] done - [ ] open", "quoted done open"),
        ("2 * 3 - 1 = 5, snake_case, C#, a|b", "2 * 3 - 1 = 5, snake_case, C#, a|b"),
        ("**cut", "**cut"),
        ("", ""),
    ],
)
def test_an_excerpt_has_words_and_no_signs_of_markdown(text: str, plain: str) -> None:
    assert without_signs(text) == plain
