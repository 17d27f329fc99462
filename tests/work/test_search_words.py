"""Which words find which text: alike on both databases, and nothing that is searched for is syntax."""

from __future__ import annotations

import sqlite3

import asyncpg
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.work.studio import Studio
from workhook.http.calls import Services
from workhook.storage.dialects import postgresql
from workhook.storage.statements import Compiler
from workhook.work.search.api import LIMITS
from workhook.work.search.match import _WANTED, PREFIXED_MAX, QUERY_MAX_CHARS, TERM_MAX, words_of
from workhook.work.search.scopes import SCOPES

FINDS = [
    # title, searched for
    ("Write the landing page", "landing"),
    ("Write the landing page", "LANDING Write"),
    ("Write the landing page", "write lan"),
    ("Ärger im Büro", "arger buro"),
    ("Ärger im Büro", "ÄRGER"),
    ("Ärger im Büro", "A\u0308rger"),
    ("Bu\u0308ro", "büro"),
    ("Tiệm phở Việt", "tiem pho viet"),
    ("ЁЖИК в тумане", "ёжик тума"),
    ("Σίσυφος", "σίσυ"),
    ("日本語の本", "日本"),
    ("日本語、本", "本"),
    ("हिन्दी में", "हिन्दी"),
    ("foo.bar@example.com/path?x=y", "bar"),
    ("foo.bar@example.com/path?x=y", "example path"),
    ("foo.bar@example.com/path?x=y", "foo.bar@example.com"),
    ("snake_case and kebab-case—dash", "case dash"),
    ("snake_case and kebab-case—dash", "kebab"),
    ("it's <b>bold</b> & brave", "bold brave"),
    ("it's <b>bold</b> & brave", "it's"),
    ("1e5abc v1.25 007", "v1 25 007"),
    ("1e5abc v1.25 007", "1e5ab"),
    ("to be OR NOT to be AND NEAR", "not or and near"),
    ("price: 100 €", "price:100"),
    ("“quoted” »words«", "quoted words"),
    ("\N{PARTY POPPER}launch", "launch"),
]
MISSES = [
    ("Write the landing page", "landings"),
    ("Write the landing page", "land page"),  # only the last word may be a beginning
    ("Write the landing page", "page -write nothing"),
    ("Write the landing page", "title:landing"),
    ("Write the landing page", "landing OR nothing"),
    ("и", "й"),
    ("日本語の本", "語の"),
    ("Write the landing page", '"" * : ( ) - ^ + & | ! <-> \\ \' ; --'),
]


def _excerpts(studio: Studio, text: str) -> list[str]:
    found = studio.owner.get("/search", params={"q": text, "per_page": "100"})["results"]
    return [each["excerpt"] for each in found]


def test_what_finds_what(studio: Studio) -> None:
    path = f"/tasks/{studio.task(title='x')}/task_comments"
    for text in dict.fromkeys(text for text, _ in FINDS + MISSES):
        studio.owner.post(path, json={"text": text})
    found = {text: _excerpts(studio, text) for _, text in FINDS + MISSES}
    assert [(text, words) for text, words in FINDS if text not in found[words]] == []
    assert [(text, words) for text, words in MISSES if text in found[words]] == []


def test_long_texts_and_queries(studio: Studio) -> None:
    text = " ".join(f"w{number}" for number in range(9000)) + " needle"
    path = f"/files/{studio.file('x')}/file_comments"
    studio.owner.post(path, json={"text": text[-65_000:]})
    studio.owner.post(path, json={"text": "x" * 64_000 + " thread"})
    assert len(_excerpts(studio, "needle")) == len(_excerpts(studio, "thread")) == 1
    for query in ("z" * QUERY_MAX_CHARS, "z " * (QUERY_MAX_CHARS // 2), "\N{CJK UNIFIED IDEOGRAPH-672C}" * 255):
        assert _excerpts(studio, query) == []


PREFIXES = [
    # of "b", its double, "bo", … and of as many more as are named at most, or one too many
    "b", "bo", "BOA", "board", "boards", "boardx", "é", "éc", "écl", "zero1", "zero10", "zero", "many", "many1",
    "every b", "every many", "b every", "every every", "every b many", "every nothing",
]  # fmt: skip


@pytest.mark.parametrize("more", [PREFIXED_MAX, PREFIXED_MAX + 1])
def test_the_last_word_may_be_the_beginning_of_few_words_or_of_many(studio: Studio, more: int) -> None:
    """SQLite asks for few of them by their names, and for many by what they begin with."""
    begun = [f"many{number:03}" for number in range(more)]
    words = ["b", "bb", "bo", "boa", "Board", "boards", "boar", "Éclair", "eclipse", "zero1", "zero10", "zero2", *begun]
    path = f"/tasks/{studio.task(title='x')}/task_comments"
    for each in words:
        studio.owner.post(path, json={"text": f"every {each}"})

    for query in PREFIXES:
        *whole, last = folded(query).split()
        fitting = {f"every {each}" for each in words if fits({"every", folded(each)}, whole, last)}
        found = _excerpts(studio, query)
        assert (query, len(found)) == (query, min(len(fitting), LIMITS.candidates))
        assert set(found) <= fitting, query


INDEX = """CREATE VIRTUAL TABLE index_ USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE index__terms USING fts5vocab(index_, instance)"""
_FEW = [f"few{number}" for number in range(PREFIXED_MAX)]
_MANY = [f"many{number}" for number in range(PREFIXED_MAX + 1)]
ASKED_AS = [
    ("boa", '("board" OR "boards")'),
    ("BOA", '("board" OR "boards")'),
    ("every other boa", '("every" "other") AND ("board" OR "boards")'),
    ("few", "(" + " OR ".join(f'"{each}"' for each in sorted(_FEW)) + ")"),
    ("many", '"many"*'),
    ("every many", '"every" "many"*'),
    ("nothing", '"nothing"*'),
    ("long", '"long"*'),
    ("é", '"é"*'),
    ("", '""*'),
]


@pytest.mark.parametrize(("words", "asked"), ASKED_AS)
def test_few_words_are_asked_for_by_their_names(words: str, asked: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript(INDEX)
    texts = ["board", "Boards", "every other", "éclair", "l" + "ong" * TERM_MAX, *_FEW, *_MANY]
    connection.executemany("INSERT INTO index_(rowid, text) VALUES (?, ?)", enumerate(texts))
    [(found,)] = connection.execute(f"SELECT {_WANTED.format(parameter=':q', index='index_')}", {"q": words})
    connection.execute("SELECT rowid FROM index_ WHERE index_ MATCH ?", [found]).fetchall()  # it understands it
    connection.close()
    assert found == asked


def fits(said: set[str], whole: list[str], last: str) -> bool:
    return said.issuperset(whole) and any(each.startswith(last) for each in said)


def folded(text: str) -> str:
    return text.lower().replace("é", "e")


async def test_postgresql_uses_the_indexes(services: Services) -> None:
    if services.database.name != "postgresql":
        pytest.skip("SQLite has no other way to find words")
    connection = await asyncpg.connect(services.settings.database_url)
    await connection.execute("SET enable_seqscan = off")
    for place in SCOPES.values():
        known = Compiler(postgresql())(sa.select(place.table.c.id).where(place.matching))
        plan = await connection.fetch(f"EXPLAIN {known.sql}", *known.arguments({"q": "one"}))
        assert f"search_{place.table.name} " in "\n".join(row[0] for row in plan)
    await connection.close()


@settings(deadline=None)
@given(st.text(max_size=QUERY_MAX_CHARS))
def test_words_have_nothing_that_is_syntax(text: str) -> None:
    words = words_of(text)
    assert words == words_of(words)
    assert "  " not in f" {words}"
    assert not set(words) & set("'\"*:()-^+&|!<>\\{},.\0\n\t")
