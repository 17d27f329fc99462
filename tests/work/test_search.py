"""GET `/search`: permissions, matching and order."""

from __future__ import annotations

import re
import sqlite3

import asyncpg
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.work.studio import Caller, JsonObject, Studio
from workhook.http.calls import Services
from workhook.storage.dialects import postgresql
from workhook.storage.statements import Compiler
from workhook.work.board.tasks.matching import (
    PART_MIN,
    PREFIXED_MAX,
    QUERY_MAX_CHARS,
    TERM_MAX,
    _sqlite_query,
    words_of,
)
from workhook.work.history.search import LIMITS, SCOPES

KEYS = {
    "type", "id", "number", "title", "excerpt", "project", "task", "file", "invoice", "file_comment_id", "created_at",
    "updated_at",
}  # fmt: skip
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def _found(caller: Caller, q: str = "needle", **more: str) -> list[JsonObject]:
    answer = caller.get("/search", params={"q": q, **more})
    assert set(answer) == {"success", "results", "incomplete_results"}
    assert answer["incomplete_results"] is False
    results: list[JsonObject] = answer["results"]
    return results


def _ids(caller: Caller, q: str = "needle", **more: str) -> list[tuple[str, str | int]]:
    return [(each["type"], each["id"]) for each in _found(caller, q, **more)]


def _task_comment(studio: Studio, task_id: str, text: str = "A needle", **more: object) -> int:
    made = studio.owner.post(f"/tasks/{task_id}/task_comments", json={"text": text, **more})
    return int(made["task_comment"]["id"])


def _file_comment(studio: Studio, file_id: str, text: str = "A needle", **more: object) -> int:
    return int(studio.owner.post(f"/files/{file_id}/file_comments", json={"text": text, **more})["id"])


def _reply(studio: Studio, comment_id: int, body: str = "A needle", **more: object) -> int:
    made = studio.owner.post(f"/file_comments/{comment_id}/comments", json={"body": body, **more})
    return int(made["comment"]["id"])


def test_everything_is_found_newest_first(studio: Studio) -> None:
    task_id = studio.task(title="Sew", description="with a\n  needle")
    comment_id = _task_comment(studio, task_id)
    file_id = studio.file("needle.svg")
    file_comment_id = _file_comment(studio, file_id)
    reply_id = _reply(studio, file_comment_id, "A <b>nee</b>dle &amp; a thread")
    found = _found(studio.owner)
    for each in found:
        assert set(each) == KEYS
        assert each["project"] == {"id": studio.project_id, "title": "Website"}
        assert TIME.fullmatch(each["created_at"])
        assert TIME.fullmatch(each["updated_at"])
    task, file = {"id": task_id, "title": "Sew"}, {"id": file_id, "title": "needle.svg"}
    shown = [
        (each["type"], each["id"], each["title"], each["excerpt"], each["task"], each["file"], each["file_comment_id"])
        for each in found
    ]
    assert shown == [
        ("file_comment_reply", reply_id, "needle.svg", "A needle & a thread", None, file, file_comment_id),
        ("file_comment", file_comment_id, "needle.svg", "A needle", None, file, None),
        ("file", file_id, "needle.svg", None, None, file, None),
        ("task_comment", comment_id, "Sew", "A needle", task, None, None),
        ("task", task_id, "Sew", "with a needle", task, None, None),
    ]
    for kind, record_id in [(each["type"], each["id"]) for each in found]:
        assert _ids(studio.owner, type=kind) == [(kind, record_id)]


def test_the_index_is_kept_up_to_date(studio: Studio) -> None:
    task_id = studio.task(title="Sew", description="needle")
    comment_id = _task_comment(studio, task_id)
    file_id = studio.file()
    file_comment_id = _file_comment(studio, file_id)
    reply_id = _reply(studio, file_comment_id)
    assert len(_ids(studio.owner)) == 4
    studio.owner.patch(f"/tasks/{task_id}", json={"title": "Knit", "description": "yarn"})
    studio.owner.patch(f"/task_comments/{comment_id}", json={"text": "yarn"})
    studio.owner.patch(f"/file_comments/{file_comment_id}", json={"text": "yarn"})
    studio.owner.patch(f"/file_comments/{file_comment_id}/comments/{reply_id}", json={"body": "<i>yarn</i>"})
    assert _ids(studio.owner) == []
    assert len(_ids(studio.owner, "yarn")) == 4
    assert _ids(studio.owner, "knit", type="task") == [("task", task_id)]
    studio.owner.patch(f"/tasks/{task_id}", json={"description": None})
    assert ("task", task_id) not in _ids(studio.owner, "yarn")
    studio.owner.delete(f"/task_comments/{comment_id}")
    studio.owner.delete(f"/file_comments/{file_comment_id}")  # along with its reply
    assert _ids(studio.owner, "yarn") == []


def test_deleted_records_are_not_found(studio: Studio) -> None:
    task_id, file_id = studio.task(title="Needle"), studio.file("needle")
    _task_comment(studio, task_id)
    _reply(studio, _file_comment(studio, file_id))
    other = studio.owner.post("/projects", json={"title": "Other", "organization": studio.world.organization})
    path = f"/projects/{other['project']['id']}"
    studio.task(studio.column(project=path), "Needle")
    assert len(_ids(studio.owner)) == 6
    studio.owner.delete(path)
    assert len(_ids(studio.owner)) == 5
    studio.owner.delete(f"/tasks/{task_id}")
    assert {kind for kind, _ in _ids(studio.owner)} == {"file", "file_comment", "file_comment_reply"}
    studio.owner.delete(f"/files/{file_id}")
    assert _ids(studio.owner) == []


def test_archived_projects_are_searched(studio: Studio) -> None:
    task_id = studio.task(title="Needle")
    studio.owner.patch(studio.project, json={"archive": True})
    assert _ids(studio.owner) == [("task", task_id)]


def test_clients_find_only_public_records(studio: Studio) -> None:
    task_id = studio.task(title="Needle")
    comment_id = _task_comment(studio, task_id)
    hidden = [("task_comment", _task_comment(studio, task_id, private=True))]
    file_id = studio.file("needle")
    file_comment_id = _file_comment(studio, file_id)
    reply_id = _reply(studio, file_comment_id)
    hidden.append(("file_comment_reply", _reply(studio, file_comment_id, private=True)))
    private_comment = _file_comment(studio, file_id, private=True)
    hidden += [("file_comment", private_comment), ("file_comment_reply", _reply(studio, private_comment))]
    private_file = studio.file("needle", private="true")
    below = _file_comment(studio, private_file)
    hidden += [("file_comment", below), ("file_comment_reply", _reply(studio, below))]
    shown = {
        ("task", task_id), ("task_comment", comment_id), ("file", file_id), ("file_comment", file_comment_id),
        ("file_comment_reply", reply_id),
    }  # fmt: skip
    assert set(_ids(studio.client)) == shown
    assert set(_ids(studio.member)) == {*shown, *hidden, ("file", private_file)}
    assert set(_ids(studio.add(role="read"))) == {*shown, *hidden, ("file", private_file)}


def test_a_search_is_limited_to_visible_projects(studio: Studio) -> None:
    private = studio.owner.post(
        "/projects", json={"title": "Hidden", "organization": studio.world.organization, "private": True}
    )["project"]
    path = f"/projects/{private['id']}"
    hidden = studio.task(studio.column(project=path), "Needle")
    shown = studio.task(title="Needle")
    assert _ids(studio.owner) == [("task", shown), ("task", hidden)]
    assert _ids(studio.owner, project_id=private["id"]) == [("task", hidden)]
    assert _ids(studio.member) == _ids(studio.client) == [("task", shown)]
    assert _ids(studio.stranger) == []
    assert _ids(studio.member, project_id=studio.project_id) == [("task", shown)]
    for caller, project_id in (
        (studio.member, private["id"]),
        (studio.client, private["id"]),
        (studio.stranger, studio.project_id),
        (studio.owner, "prj_none"),
    ):
        caller.refused(404, "GET", "/search", params={"q": "needle", "project_id": project_id})
    studio.nobody.refused(401, "GET", "/search", params={"q": "needle"})


def test_paging_returns_every_result_once(studio: Studio) -> None:
    task_id, file_id = studio.task(title="Needle"), studio.file("needle")
    for _ in range(4):
        _task_comment(studio, task_id)
        _reply(studio, _file_comment(studio, file_id))
    every = _ids(studio.owner, per_page="100")
    assert len(every) == len(set(every)) == 14
    for only in ({}, {"type": "task_comment"}, {"project_id": studio.project_id}):
        paged: list[tuple[str, str | int]] = []
        response = studio.owner.call("GET", "/search", params={"q": "needle", "per_page": "3", **only})
        while True:
            paged += [(each["type"], each["id"]) for each in response.json()["results"]]
            if "next" not in response.links:
                break
            # Records added in the meantime neither repeat nor hide others.
            _task_comment(studio, task_id, "Another thread")
            response = studio.owner.http.get(response.links["next"]["url"])
        assert paged == [each for each in every if only.get("type", each[0]) == each[0]]


def test_a_page_has_30_results_by_default(studio: Studio) -> None:
    task_id = studio.task()
    for _ in range(31):
        _task_comment(studio, task_id)
    assert len(_ids(studio.owner)) == 30
    assert len(_ids(studio.owner, per_page="31")) == 31


def test_invalid_parameters_are_refused(studio: Studio) -> None:
    def faults(**params: str) -> dict[str, str]:
        return studio.owner.faults("GET", "/search", params=params)

    assert faults() == {"q": "missing"}
    assert faults(q="", type="project", per_page="101", sort="title") == {
        "q": "invalid", "type": "invalid", "per_page": "invalid", "sort": "unknown",
    }  # fmt: skip
    assert faults(q="x" * 256) == {"q": "invalid"}
    for cursor in ("x", "v1_WzFd", "v1_WzEwMDAwMDAwMDAwMDAwMDAwMDAwMCwwLDAsIiJd"):  # [1], [10**21, 0, 0, ""]
        assert faults(q="x", cursor=cursor) == {"cursor": "invalid"}, cursor


def test_a_query_without_words_finds_nothing(studio: Studio) -> None:
    studio.task(title="Needle or thread")
    for q in ("!!!", '" OR "', "*", "(", "\N{COMBINING ACUTE ACCENT}", " ", "'; --"):
        assert [each["title"] for each in _found(studio.owner, q)] == (["Needle or thread"] if "OR" in q else []), q


def test_excerpts_show_the_match_in_its_context(studio: Studio) -> None:
    text = "One " * 100 + "and then the Nëedle in\n\nthe haystack" + " of hay" * 100
    _task_comment(studio, studio.task(), text)
    [found] = _found(studio.owner, "needle")
    assert len(found["excerpt"]) <= 200
    assert found["excerpt"].startswith("…One One")
    assert "and then the Nëedle in the haystack of hay" in found["excerpt"]
    assert found["excerpt"].endswith("…")


def _invoice(studio: Studio, payer: str | None = None, *, send: bool = True, **more: object) -> JsonObject:
    studio.owner.patch(f"{studio.project}/billing", json={"buyer": {"name": payer}})
    return studio.invoice(*(["send"] if send else []), **more)


def test_invoices_and_credit_notes_are_found(studio: Studio) -> None:
    invoice = _invoice(studio, "Bäckerei Groß & Söhne", invoice_number="2026-0042")
    addressed = _invoice(studio, invoice_number="R/77-0815", bill_to="Dashboard Ltd\n1 High Street")
    note = studio.owner.post(f"/invoices/{invoice['id']}/credit_notes", json={"reason": "Typo"})["credit_note"]
    draft = _invoice(studio, send=False, bill_to="Quagga Inc")
    first, second = ("invoice", invoice["id"]), ("invoice", addressed["id"])
    number = note["credit_note_number"]
    cases = {
        "2026-0042": first, "0042": first, "2026": first, "backerei gross": first, "sohne": first,
        "R/77-0815": second, "815": second, "board": second, "high str": second, "uagg": ("invoice", draft["id"]),
        number: ("credit_note", note["id"]), "typ": ("credit_note", note["id"]),
    }  # fmt: skip
    for q, expected in cases.items():
        assert expected in _ids(studio.owner, q), q
        assert expected in _ids(studio.member, q, type=expected[0], project_id=studio.project_id), q
        if expected[1] != draft["id"]:
            assert expected in _ids(studio.client, q), q
        assert _ids(studio.stranger, q) == []
    assert _ids(studio.client, "quagga") == []

    [found] = _found(studio.owner, "backerei", type="invoice")
    assert found["title"] == "2026-0042"
    assert found["excerpt"] == "Bäckerei Groß & Söhne"
    assert found["invoice"] == {"id": invoice["id"], "title": "2026-0042"}
    assert found["project"] == {"id": studio.project_id, "title": "Website"}
    assert (found["task"], found["file"], found["number"]) == (None, None, None)
    [found] = _found(studio.owner, number, type="credit_note")
    assert (found["title"], found["invoice"]) == (number, {"id": invoice["id"], "title": "2026-0042"})
    [found] = _found(studio.owner, "quagga")
    assert found["title"] == "Draft invoice"

    studio.owner.patch(f"/invoices/{draft['id']}", json={"bill_to": "Okapi Inc"})
    assert _ids(studio.owner, "quagga") == []
    assert _ids(studio.owner, "okapi") == [("invoice", draft["id"])]
    studio.owner.delete(f"/invoices/{draft['id']}")
    assert _ids(studio.owner, "okapi") == []


# --- search words ----------------------------------------------------------------------------------------------------
# Which queries match which text, identically on both databases. No part of a query is treated as syntax.


FINDS = [
    # text, query
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
    # title, query: matches inside words, but only in titles
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
    ("Write the landing page", "land page"),  # only the last word may be a prefix
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


def test_queries_match_as_expected(studio: Studio) -> None:
    path = f"/tasks/{studio.task(title='x')}/task_comments"
    for text in dict.fromkeys(text for text, _ in FINDS + MISSES):
        studio.owner.post(path, json={"text": text})
    found = {text: _excerpts(studio, text) for _, text in FINDS + MISSES}
    assert [(text, words) for text, words in FINDS if text not in found[words]] == []
    assert [(text, words) for text, words in MISSES if text in found[words]] == []


def test_parts_of_words_match_in_titles(studio: Studio) -> None:
    """This holds for file names as well as for task titles."""
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
def test_every_part_of_a_title_matches(studio: Studio, titles: list[str], data: st.DataObject) -> None:
    """Each result contains all query words, as a word, a prefix or a part of a word."""
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


def test_a_task_can_be_found_by_its_number(studio: Studio) -> None:
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


def test_long_texts_and_queries_are_supported(studio: Studio) -> None:
    text = " ".join(f"w{number}" for number in range(9000)) + " needle"
    path = f"/files/{studio.file('x')}/file_comments"
    studio.owner.post(path, json={"text": text[-65_000:]})
    studio.owner.post(path, json={"text": "x" * 64_000 + " thread"})
    assert len(_excerpts(studio, "needle")) == len(_excerpts(studio, "thread")) == 1
    for query in ("z" * QUERY_MAX_CHARS, "z " * (QUERY_MAX_CHARS // 2), "\N{CJK UNIFIED IDEOGRAPH-672C}" * 255):
        assert _excerpts(studio, query) == []


PREFIXES = [
    # of "b", "bb", "bo" and so on, plus as many words as can be listed by name, or one more
    "b", "bo", "BOA", "board", "boards", "boardx", "é", "éc", "écl", "zero1", "zero10", "zero", "many", "many1",
    "every b", "every many", "b every", "every every", "every b many", "every nothing",
]  # fmt: skip


@pytest.mark.parametrize("more", [PREFIXED_MAX, PREFIXED_MAX + 1])
def test_the_last_word_can_be_a_prefix_of_few_or_many_words(studio: Studio, more: int) -> None:
    """SQLite queries list a few matching words by name, and use a prefix for many."""
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
def test_few_matching_words_are_listed_by_name(words: str, asked: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript(INDEX)
    texts = ["board", "Boards", "every other", "éclair", "l" + "ong" * TERM_MAX, *_FEW, *_MANY]
    connection.executemany("INSERT INTO search_task_comments(rowid, text) VALUES (?, ?)", enumerate(texts))
    [(found,)] = connection.execute(f"SELECT {_sqlite_query('task_comments', ':q')}", {"q": words})
    connection.execute(
        "SELECT rowid FROM search_task_comments WHERE search_task_comments MATCH ?", [found]
    ).fetchall()  # raises unless the query is valid
    connection.close()
    assert found == asked


def fits(said: set[str], whole: list[str], last: str) -> bool:
    return said.issuperset(whole) and any(each.startswith(last) for each in said)


def folded(text: str) -> str:
    return text.lower().replace("é", "e")


async def test_postgresql_uses_the_search_indexes(services: Services) -> None:
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
def test_normalized_words_contain_no_syntax(text: str) -> None:
    words = words_of(text)
    assert words == words_of(words)
    assert "  " not in f" {words}"
    assert not set(words) & set("'\"*:()-^+&|!<>\\{},.\0\n\t")
