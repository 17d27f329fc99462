"""Full-text search over tasks, files, comments and replies.

All that belongs to it is named `search_…`, and the tables' metadata does not know it: SQLite has full-text tables that
triggers keep in step, PostgreSQL has indexes over an expression. `work/board/tasks/matching.py` asks them.
"""

# ruff: noqa: S608  # the statements are made of names that stand here

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

# What is searched of each table; the second may be null.
TEXTS = {
    "tasks": ("title", "description"),
    "files": ("title",),
    "task_comments": ("text",),
    "file_comments": ("text",),
    "file_comment_replies": ("plain_body",),
}
NUMBERED = ("tasks", "files")  # their ids are texts


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        _sqlite()
    else:
        _postgresql()


def _sqlite() -> None:
    # A table without an INTEGER PRIMARY KEY numbers its rows anew when the file is vacuumed: so these have a table.
    op.execute("CREATE TABLE search_numbers (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE)")
    for table, columns in TEXTS.items():
        _sqlite_index(table, columns)


def _sqlite_index(table: str, columns: tuple[str, ...]) -> None:
    index, listed = f"search_{table}", ", ".join(columns)
    # Contentless: the text is only in its own table. Removing a row then takes what was indexed of it.
    op.execute(
        f"CREATE VIRTUAL TABLE {index} USING fts5({listed}, content='', tokenize='unicode61 remove_diacritics 2')"
    )

    def number(row: str) -> str:
        return f"(SELECT number FROM search_numbers WHERE id = {row}.id)" if table in NUMBERED else f"{row}.id"

    def values(row: str) -> str:
        return ", ".join([number(row), *(f"{row}.{each}" for each in columns)])

    add = f"INSERT INTO {index}(rowid, {listed}) VALUES ({values('new')});"
    remove = f"INSERT INTO {index}({index}, rowid, {listed}) VALUES ('delete', {values('old')});"
    first = "INSERT INTO search_numbers(id) VALUES (new.id);" if table in NUMBERED else ""
    last = "DELETE FROM search_numbers WHERE id = old.id;" if table in NUMBERED else ""
    changed = " OR ".join(f"old.{each} IS NOT new.{each}" for each in columns)
    op.execute(f"CREATE TRIGGER {index}_insert AFTER INSERT ON {table} BEGIN {first} {add} END")
    op.execute(
        f"CREATE TRIGGER {index}_update AFTER UPDATE OF {listed} ON {table} WHEN {changed} BEGIN {remove} {add} END"
    )
    op.execute(f"CREATE TRIGGER {index}_delete AFTER DELETE ON {table} BEGIN {remove} {last} END")
    if table in NUMBERED:
        op.execute(f"INSERT INTO search_numbers(id) SELECT id FROM {table} ORDER BY id")
    op.execute(f"INSERT INTO {index}(rowid, {listed}) SELECT {values(table)} FROM {table}")


# ASCII that is neither letter nor digit; punctuation and symbols of the other blocks, for databases whose locale takes
# all that is not ASCII for letters.
SEPARATORS = (
    r"\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7"
    r"\u2000-\u206f\u20a0-\u20cf\u2190-\u245f\u2500-\u2bff\u3000-\u3004\u3008-\u3020\u3030"
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\U0001f000-\U0001faff"
)


def _postgresql() -> None:
    # The parser would keep `a.b`, `a/b` and `a@b` together, which FTS5 does not: it is shown words and spaces only.
    fold = r"regexp_replace(normalize(value, NFD), '([A-Za-z])[\u0300-\u036f]+', '\1', 'g')"  # é is e, й remains й
    _function(
        "search_fold(value text)",
        "text",
        rf"SELECT regexp_replace(normalize({fold}, NFC), '[{SEPARATORS}]+', ' ', 'g')",
    )
    # SQL would be put in the place of the call, and the planner would not see what it costs to take a text apart.
    vector = "BEGIN RETURN to_tsvector('pg_catalog.simple', {schema}search_fold(value)); END"
    _function("search_vector(value text)", "tsvector", vector, "plpgsql COST 10000")
    # NULL, which matches nothing, where there is no word.
    every_word = r"regexp_replace(nullif(btrim({schema}search_fold(value)), ''), ' +', ' & ', 'g')"
    _function("search_query(value text)", "tsquery", f"SELECT to_tsquery('pg_catalog.simple', {every_word} || ':*')")
    for table, columns in TEXTS.items():
        texts = " || ' ' || ".join((columns[0], *(f"coalesce({each}, '')" for each in columns[1:])))
        op.execute(f"CREATE INDEX search_{table} ON {table} USING gin (search_vector({texts}))")


def _function(signature: str, answer: str, body: str, language: str = "sql") -> None:
    # A dump is restored with no search path: functions of ours are named with their schema.
    schema = op.get_bind().scalar(sa.text("SELECT quote_ident(current_schema()) || '.'"))
    body = body.replace("{schema}", schema)
    op.get_bind().exec_driver_sql(
        f"CREATE FUNCTION {signature} RETURNS {answer} LANGUAGE {language} IMMUTABLE PARALLEL SAFE AS $$ {body} $$"
    )
