"""Which words find which text: alike on both databases, and nothing that is searched for is syntax."""

from __future__ import annotations

import sqlite3

import asyncpg
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.work.studio import Studio
from workhook.http.calls import Services
from workhook.storage.dialects import postgresql
from workhook.storage.statements import Compiler
from workhook.work.board.tasks.matching import PART_MIN, PREFIXED_MAX, QUERY_MAX_CHARS, TERM_MAX, _wanted, words_of
from workhook.work.history.search.api import LIMITS
from workhook.work.history.search.scopes import SCOPES

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
    ("Straße nach Gießen", "strasse"),
    ("STRASSE", "straße"),
    ("GROẞE Straße", "grosse strasse"),
    ("Gießen", "GIESS"),
    ("œuvre", "oeuv"),
    ("Smørrebrød", "smorrebrod"),
    ("see #12", "#12"),
    ("see #12", "12"),
    ("1200 pieces", "12"),
]
INNER = [
    # title, searched for: not found like that in other texts
    ("Dashboard design", "board"),
    ("Dashboard design", "BOARD design"),
    ("Dashboard design", "sign board"),
    ("Schlußrechnung für Müller", "rechnung"),
    ("Schlußrechnung für Müller", "rechnung uller"),
    ("Schlußrechnung für Müller", "lussrech"),
    ("Schlußrechnung für Müller", "lußrech üll"),
    ("foo.quarterly@example.com", "arter amp"),
    ("kebab-cases—dashes", "ase ash"),
    ("O'Brien's", "rien"),
    ("x" * 100 + "needle", "needle"),
    ("ЁЖИК туманный", "ман"),
    ("日本語の本だ", "語の本"),
    ("W2026-0042b", "026 042"),
]
NOT_INNER = [
    ("Dashboard design", "ar"),
    ("Dashboard design", "boarding"),
    ("Dashboard design", "rddesign"),
    ("Dashboard design", "ar design"),
    ("kebab-case", "ba"),
]
MISSES = [
    ("Write the landing page", "landings"),
    ("Write the landing page", "land page"),  # only the last word may be a beginning
    ("Write the landing page", "page -write nothing"),
    ("Write the landing page", "title:landing"),
    ("Write the landing page", "landing OR nothing"),
    ("и", "й"),
    ("日本語の本", "語の"),
    ("1200 pieces", "#12"),
    ("12", "#1"),
    ("Dashboard", "board"),
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


def test_inner_parts_of_titles(studio: Studio) -> None:
    """A title is found by parts of its words, a file's name like a task's."""
    column = studio.column()
    for title in dict.fromkeys(title for title, _ in INNER + NOT_INNER):
        studio.task(column, title)
        studio.file(title)
    cases = INNER + NOT_INNER
    found = {}
    for _, words in cases:
        for kind in ("task", "file"):
            results = studio.owner.get("/search", params={"q": words, "type": kind})["results"]
            found[kind, words] = [each["title"] for each in results]
        listed = studio.owner.get(f"{studio.project}/tasks", params={"q": words})["tasks"]
        found["list", words] = [each["title"] for each in listed]
        across = studio.owner.get("/tasks", params={"q": words})["tasks"]
        found["across", words] = [each["title"] for each in across]
        in_column = studio.owner.get(f"/columns/{column}/tasks", params={"q": words})["tasks"]
        found["column", words] = [each["title"] for each in in_column]
    places = ("task", "file", "list", "across", "column")
    assert [(place, case) for case in INNER for place in places if case[0] not in found[place, case[1]]] == []
    assert [(place, case) for case in NOT_INNER for place in places if case[0] in found[place, case[1]]] == []


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text("abß é-", min_size=1, max_size=12), min_size=1, max_size=6), st.data())
def test_every_part_of_a_title_finds_it(studio: Studio, titles: list[str], data: st.DataObject) -> None:
    """And what is found has each of the words, as a whole, as its beginning or inside."""
    titles = [f"q{title}" for title in titles]
    task_ids = {studio.task(title=title): title for title in titles}
    title = data.draw(st.sampled_from(titles))
    words = words_of(folded(title)).split()
    word = data.draw(st.sampled_from(words))
    start = data.draw(st.integers(0, max(0, len(word) - PART_MIN)))
    part = word[start : data.draw(st.integers(start + PART_MIN, max(start + PART_MIN, len(word))))]
    query = " ".join([*data.draw(st.lists(st.sampled_from(words), max_size=1)), part])
    *whole, last = query.split()

    def fits(title: str) -> bool:
        said = words_of(folded(title)).split()
        inner = [any(len(each) >= PART_MIN and each in one for one in said) for each in (*whole, last)]
        return all(each in said or found for each, found in zip(whole, inner, strict=False)) and (
            inner[-1] or any(one.startswith(last) for one in said)
        )

    found = {each["id"] for each in studio.owner.get("/tasks", params={"q": query})["tasks"]}
    assert found & set(task_ids) == {task_id for task_id, each in task_ids.items() if fits(each)}, query
    for task_id in task_ids:
        studio.owner.delete(f"/tasks/{task_id}")


def test_a_task_is_found_by_its_number(studio: Studio) -> None:
    column = studio.column()
    tasks = {number: studio.task(column, f"t{number}") for number in range(1, 13)}
    other = studio.owner.post("/projects", json={"title": "Other", "organization": studio.world.organization})
    path = f"/projects/{other['project']['id']}"
    there = studio.task(studio.column(project=path), "first of the other")

    def found(q: str, **more: str) -> set[str]:
        results = studio.owner.get("/search", params={"q": q, "type": "task", **more})["results"]
        return {each["id"] for each in results}

    for q in ("#12", "12", "#012", " #12 ", "(#12)"):
        assert found(q) == {tasks[12]}, q
    assert found("#1") == {tasks[1], there}
    assert found("1") == {tasks[1], there}
    assert found("#1", project_id=studio.project_id) == {tasks[1]}
    assert found(f"{studio.world.full_name}#1") == {tasks[1]}
    assert found(f"{studio.world.organization}/nosuch#1") == found("t12 #1") == found("#13") == set()
    assert found("#12 t12") == found("t12 #12") == found("12 t12") == {tasks[12]}
    for address in (f"{studio.project}/tasks", f"/columns/{column}/tasks", "/tasks"):
        listed = studio.owner.get(address, params={"q": "#12"})["tasks"]
        assert [each["id"] for each in listed] == [tasks[12]], address
    refused = studio.stranger.get("/search", params={"q": f"{studio.world.full_name}#1"})["results"]
    assert refused == []


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


INDEX = """CREATE VIRTUAL TABLE search_task_comments
  USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE search_task_comments_terms USING fts5vocab(search_task_comments, instance)"""
_FEW = [f"few{number}" for number in range(PREFIXED_MAX)]
_MANY = [f"many{number}" for number in range(PREFIXED_MAX + 1)]
ASKED_AS = [
    ("boa", '("board" OR "boards")'),
    ("BOA", '("board" OR "boards")'),
    ("every other boa", '"every" AND "other" AND ("board" OR "boards")'),
    ("few", "(" + " OR ".join(f'"{each}"' for each in sorted(_FEW)) + ")"),
    ("many", '"many"*'),
    ("every many", '"every" AND "many"*'),
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
    connection.executemany("INSERT INTO search_task_comments(rowid, text) VALUES (?, ?)", enumerate(texts))
    [(found,)] = connection.execute(f"SELECT {_wanted('task_comments', ':q')}", {"q": words})
    connection.execute(
        "SELECT rowid FROM search_task_comments WHERE search_task_comments MATCH ?", [found]
    ).fetchall()  # it understands it
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
