"""The complete schema of a database in a form in which two databases can be compared."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg

from workhook.core.config import load

Shape = dict[str, dict[str, str]]

_POSTGRESQL = {
    "columns": """SELECT c.relname || '.' || a.attname, format_type(a.atttypid, a.atttypmod) || ' '
        || a.attnotnull || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '') || ' ' || a.attidentity::text
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0
        AND NOT a.attisdropped""",
    "indexes": """SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) || ' ' || i.indisvalid
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = 'public'::regnamespace""",
    "constraints": """SELECT conrelid::regclass || '.' || conname, pg_get_constraintdef(oid) || ' ' || convalidated
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid > 0""",
    "triggers": """SELECT tgrelid::regclass || '.' || tgname, pg_get_triggerdef(oid) || ' ' || tgenabled::text
        FROM pg_trigger WHERE NOT tgisinternal""",
    "functions": """SELECT oid::regprocedure::text, pg_get_functiondef(oid) FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace""",
    "options": """SELECT relname, relkind::text || ' ' || coalesce(reloptions::text, '') FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'i', 'S', 'v')""",
    "revision": "SELECT 'revision', version_num FROM alembic_version",
}
_OURS = """(SELECT * FROM sqlite_master WHERE name NOT LIKE 'sqlite~_%' ESCAPE '~' AND tbl_name NOT IN
    (SELECT name FROM pragma_table_list WHERE type = 'shadow'))"""
# An added column is at another position in the text of its table, so tables are compared in parts.
_SQLITE = {
    "tables": """SELECT l.name, l.wr || ' ' || (m.sql LIKE '%AUTOINCREMENT%')
        FROM {ours} m JOIN pragma_table_list l USING (name)""",
    "columns": """SELECT m.name || '.' || c.name, c.type || ' ' || c."notnull" || ' ' || coalesce(c.dflt_value, '')
        || ' ' || c.pk FROM {ours} m, pragma_table_xinfo(m.name) c WHERE m.type = 'table'""",
    "keys": """SELECT m.name || '.' || k."from", k."table" || '.' || k."to" || ' ' || k.on_delete
        FROM {ours} m, pragma_foreign_key_list(m.name) k WHERE m.type = 'table'""",
    "unique": """SELECT m.name || '.' || (SELECT group_concat(name) FROM pragma_index_info(i.name)), i.origin
        FROM {ours} m, pragma_index_list(m.name) i WHERE m.type = 'table' AND i.origin <> 'c'""",
    "others": "SELECT name, sql FROM {ours} WHERE type <> 'table' OR sql LIKE 'CREATE VIRTUAL%'",
    "revision": "SELECT 'revision', version_num FROM alembic_version",
}


async def shape_of(settings: dict[str, Any]) -> Shape:
    known = load(settings, {})
    if known.sqlite_path is not None:
        return sqlite_shape(known.sqlite_path)
    connection = await asyncpg.connect(known.database_url)
    try:
        return await shape(connection)
    finally:
        await connection.close()


async def shape(connection: Any) -> Shape:
    return {kind: dict(await connection.fetch(asked)) for kind, asked in _POSTGRESQL.items()}


def sqlite_shape(path: Path) -> Shape:
    with closing(sqlite3.connect(path)) as connection:
        return {kind: dict(connection.execute(asked.format(ours=_OURS)).fetchall()) for kind, asked in _SQLITE.items()}
