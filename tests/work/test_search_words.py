"""Which words find which text: alike on both databases, and nothing that is searched for is syntax."""

from __future__ import annotations

import asyncpg
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.world import make_world
from workhook.core.ids import new_id
from workhook.http.calls import Services
from workhook.identity.tables import accounts, projects
from workhook.storage import Transaction
from workhook.storage.dialects import POSTGRESQL
from workhook.storage.metadata import insert_into
from workhook.storage.statements import Compiler
from workhook.work.columns.tables import columns
from workhook.work.search.match import QUERY_MAX_CHARS, task_matches, words_of
from workhook.work.tasks.tables import tasks

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
    ("Write the landing page", ""),
    ("Write the landing page", '"" * : ( ) - ^ + & | ! <-> \\ \' ; --'),
]

_insert_column = insert_into(
    columns, "id", "repository_id", "title", "position", "finished", "start_timer", "created_at", "updated_at"
)
_FIELDS = ("id", "repository_id", "column_id", "title", "description", "fields", "sections", "labels", "user_id")
_insert_task = insert_into(tasks, *_FIELDS, "created_at", "updated_at")
_found = sa.select(tasks.c.title).where(task_matches())
_place = sa.select(projects.c.repository_id, sa.select(sa.func.min(accounts.c.id)).scalar_subquery().label("user_id"))


async def _insert(services: Services, tx: Transaction, *texts: tuple[str, str | None]) -> None:
    place = await tx.fetch_one(_place)
    assert place is not None
    shared = {"repository_id": place["repository_id"], "created_at": 0, "updated_at": 0}
    column = {**shared, "id": new_id("col"), "title": "To do", "position": 0, "finished": False, "start_timer": False}
    await tx.execute(_insert_column, column)
    task = {**shared, "column_id": column["id"], "user_id": place["user_id"]}
    task |= {"fields": "{}", "sections": "{}", "labels": "[]"}
    rows = [{**task, "id": new_id("tsk"), "title": title, "description": text} for title, text in texts]
    await tx.execute_many(_insert_task, rows)


async def _titles(services: Services, text: str) -> list[str]:
    return [row["title"] for row in await services.database.fetch_slow(_found, {"q": words_of(text)})]


async def test_what_finds_what(services: Services) -> None:
    await make_world(services)
    titles = dict.fromkeys(title for title, _ in FINDS + MISSES)
    async with services.database.transaction() as tx:
        await _insert(services, tx, *((title, None) for title in titles))
    found = {text: await _titles(services, text) for _, text in FINDS + MISSES}
    assert [(title, text) for title, text in FINDS if title not in found[text]] == []
    assert [(title, text) for title, text in MISSES if title in found[text]] == []


async def test_the_index_keeps_in_step(services: Services) -> None:
    await make_world(services)
    async with services.database.transaction() as tx:
        await _insert(services, tx, ("One", "first words"), ("Two", None), ("Three", "last"))
        seen = [row["title"] for row in await tx.fetch_all(_found, {"q": "first"})]
    assert seen == ["One"]
    assert await _titles(services, "one words") == ["One"]
    edit = sa.update(tasks).where(tasks.c.title == "One").values(description="second words", updated_at=1)
    async with services.database.transaction() as tx:
        assert await tx.execute(edit) == 1
    assert await _titles(services, "first") == []
    assert await _titles(services, "one second") == ["One"]
    async with services.database.transaction() as tx:
        assert await tx.execute(sa.delete(tasks).where(tasks.c.title == "One")) == 1
    assert await _titles(services, "words") == []
    assert sorted(await _titles(services, "t")) == ["Three", "Two"]


async def test_what_was_rolled_back_is_not_found(services: Services) -> None:
    await make_world(services)
    with pytest.raises(RuntimeError, match="changed my mind"):
        async with services.database.transaction() as tx:
            await _insert(services, tx, ("Never", None))
            raise RuntimeError("changed my mind")
    assert await _titles(services, "never") == []
    async with services.database.transaction() as tx:
        await _insert(services, tx, ("Ever", None))
    assert await _titles(services, "ever") == ["Ever"]


async def test_long_texts_and_queries(services: Services) -> None:
    await make_world(services)
    text = " ".join(f"w{number}" for number in range(9000)) + " needle"
    async with services.database.transaction() as tx:
        await _insert(services, tx, ("Long", text[-65_000:]), ("One word", "x" * 64_000))
    assert await _titles(services, "needle") == ["Long"]
    assert await _titles(services, "one") == ["One word"]
    for query in ("z" * QUERY_MAX_CHARS, "z " * (QUERY_MAX_CHARS // 2), "\N{CJK UNIFIED IDEOGRAPH-672C}" * 255):
        assert await _titles(services, query) == []


async def test_postgresql_has_an_index_that_fits(services: Services) -> None:
    if services.database.name != "postgresql":
        pytest.skip("SQLite has no other way to find words")
    known = Compiler(POSTGRESQL)(_found)
    connection = await asyncpg.connect(services.settings.database_url)
    await connection.execute("SET enable_seqscan = off")
    plan = await connection.fetch(f"EXPLAIN {known.sql}", *known.arguments({"q": "one"}))
    await connection.close()
    assert "search_tasks" in "\n".join(row[0] for row in plan)


@given(st.text(max_size=QUERY_MAX_CHARS))
def test_words_have_nothing_that_is_syntax(text: str) -> None:
    words = words_of(text)
    assert words == words_of(words)
    assert "  " not in f" {words}"
    assert not set(words) & set("'\"*:()-^+&|!<>\\{},.\0\n\t")
