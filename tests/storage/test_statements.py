"""Statements are built at import and compiled at their first use: those that are rarely used are compiled here."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql.expression import Executable

import workhook
from workhook.storage import dialects
from workhook.storage.metadata import probe
from workhook.storage.statements import Compiler


def statements() -> Iterator[tuple[str, Executable]]:
    """Every statement of a module, or in a dictionary of one, with its name."""
    for module in pkgutil.walk_packages(workhook.__path__, "workhook."):
        if ".migrations" in module.name or module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            found = value.values() if isinstance(value, dict) else [value]
            yield from ((f"{module.name}.{name}", each) for each in found if isinstance(each, Executable))


@pytest.mark.parametrize("dialect", [dialects.SQLITE, dialects.postgresql()], ids=lambda dialect: dialect.name)
def test_every_statement_compiles(dialect: Dialect) -> None:
    compiler = Compiler(dialect)
    compiled = {name: compiler(statement).sql for name, statement in statements()}
    assert len(compiled) > 50
    assert any("lanes" in sql for sql in compiled.values())


def test_on_conflict_is_written_alike_for_both_databases() -> None:
    """SQLite's construct is compiled for PostgreSQL, too: `dialects` gives that compiler what it asks for."""
    row: dict[str, sa.ColumnElement[int]] = {"id": sa.literal_column("1"), "written_at": sa.literal_column("2")}
    insert = dialects.upsert(probe).values(row)
    for made, end in (
        (insert.on_conflict_do_nothing(), "ON CONFLICT DO NOTHING"),
        (
            insert.on_conflict_do_update(index_elements=["id"], set_={"written_at": insert.excluded.written_at}),
            "ON CONFLICT (id) DO UPDATE SET written_at = excluded.written_at",
        ),
    ):
        for each in (dialects.SQLITE, dialects.postgresql()):
            written = str(made.compile(dialect=each))
            assert written.startswith(f"INSERT INTO probe (id, written_at) VALUES (1, 2) {end}")
