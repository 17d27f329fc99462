"""All that PostgreSQL knows of a schema, in words that two databases can be compared by."""

from __future__ import annotations

from typing import Any

_ASKED = {
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


async def shape(connection: Any) -> dict[str, dict[str, str]]:
    return {kind: dict(await connection.fetch(asked)) for kind, asked in _ASKED.items()}
