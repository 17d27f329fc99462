"""Search finds inner parts of titles and names, tasks by their number, and invoices and credit notes.

The indexes of migrations 0004 and 0019 are made anew, with more in them. On SQLite `parts` has what each word of a
title or a name ends with, and `number` the number of a task after a mark that no word begins with. PostgreSQL has the
same in one vector, where a part begins with `~`. Letters that are not taken apart by Unicode, such as `ß`, are spelled
with others. `work/board/tasks/matching.py` asks the indexes.
"""

# ruff: noqa: S608  # the statements are made of names that stand here

from typing import NamedTuple

import sqlalchemy as sa
from alembic import op

from workhook.storage.online import beside_others, create_index, drop_index

revision = "0054"
down_revision = "0053"


class Searched(NamedTuple):
    """`words`: by the names of the columns of SQLite's index, the texts of a row, which may be null. `inside`: those
    of them whose inner parts are found."""

    words: dict[str, str]
    inside: tuple[str, ...] = ()
    is_numbered: bool = False
    has_text_id: bool = False


_PAYER = {"sqlite": "json_extract({row}buyer, '$.name')", "postgresql": "({row}buyer::json ->> 'name')"}
PART_CHARS, PARTS_OF_CHARS, MARK = 64, 512, "\u02b9"
SPELLED = {
    "ß": "ss", "ẞ": "ss", "æ": "ae", "Æ": "ae", "œ": "oe", "Œ": "oe", "ø": "o", "Ø": "o", "ł": "l", "Ł": "l", "đ": "d",
    "Đ": "d", "\u0131": "i",
}  # fmt: skip


def searched(dialect: str) -> dict[str, Searched]:
    def same(*names: str) -> dict[str, str]:
        return {name: f"{{row}}{name}" for name in names}

    return {
        "tasks": Searched(same("title", "description"), ("title",), is_numbered=True, has_text_id=True),
        "files": Searched(same("title"), ("title",), has_text_id=True),
        "task_comments": Searched(same("text")),
        "file_comments": Searched(same("text")),
        "file_comment_replies": Searched(same("plain_body")),
        "invoices": Searched(
            {**same("invoice_number"), "payer": _PAYER[dialect], **same("bill_to")},
            ("invoice_number", "payer", "bill_to"),
            has_text_id=True,
        ),
        "credit_notes": Searched(same("credit_note_number", "reason"), ("credit_note_number",), has_text_id=True),
    }


def upgrade() -> None:
    drop_index("ix_credit_notes_repository_id", "credit_notes")
    create_index("ix_credit_notes_repository_id", "credit_notes", ["repository_id", "id"])
    if op.get_bind().dialect.name == "sqlite":
        for table, found in searched("sqlite").items():
            _sqlite_index(table, found)
    else:
        with beside_others():
            _postgresql()


# --- SQLite -----------------------------------------------------------------------------------------------------------


def _spelled(text: str) -> str:
    for letter, spelling in SPELLED.items():
        text = f"replace({text}, '{letter}', '{spelling}')"
    return text


def _parts(text: str) -> str:
    """What each word of a text ends with: `board oard ard` of `board`."""
    return (
        f"(WITH RECURSIVE rest(t) AS (SELECT {_spelled(f'substr({text}, 1, {PARTS_OF_CHARS})')} "
        "UNION ALL SELECT substr(t, 2) FROM rest WHERE length(t) > 3) "
        f"SELECT group_concat(substr(t, 1, min({PART_CHARS}, instr(t || ' ', ' ') - 1)), ' ') FROM rest "
        "WHERE instr(substr(t, 1, 3), ' ') = 0)"
    )


def _sqlite_index(table: str, found: Searched) -> None:
    index = f"search_{table}"
    for event in ("insert", "update", "delete"):
        op.execute(f"DROP TRIGGER IF EXISTS {index}_{event}")
    op.execute(f"DROP TABLE IF EXISTS {index}_terms")
    op.execute(f"DROP TABLE IF EXISTS {index}")
    columns = [*found.words, *(["parts"] if found.inside else []), *(["number"] if found.is_numbered else [])]
    listed = ", ".join(columns)
    # Contentless: the text is only in its own table. Removing a row then takes what was indexed of it.
    op.execute(
        f"CREATE VIRTUAL TABLE {index} USING fts5({listed}, content='', tokenize='unicode61 remove_diacritics 2')"
    )
    op.execute(f"CREATE VIRTUAL TABLE {index}_terms USING fts5vocab({index}, instance)")

    def number(row: str) -> str:
        return f"(SELECT number FROM search_numbers WHERE id = {row}id)" if found.has_text_id else f"{row}id"

    def values(row: str) -> str:
        texts = {name: each.format(row=row) for name, each in found.words.items()}
        whole = " || ' ' || ".join(f"coalesce({texts[name]}, '')" for name in found.inside)
        given = [number(row), *map(_spelled, texts.values())]
        given += [_parts(whole)] if found.inside else []
        given += [f"CASE WHEN {row}number > 0 THEN '{MARK}' || {row}number END"] if found.is_numbered else []
        return ", ".join(given)

    add = f"INSERT INTO {index}(rowid, {listed}) VALUES ({values('new.')});"
    remove = f"INSERT INTO {index}({index}, rowid, {listed}) VALUES ('delete', {values('old.')});"
    first = "INSERT INTO search_numbers(id) VALUES (new.id);" if found.has_text_id else ""
    last = "DELETE FROM search_numbers WHERE id = old.id;" if found.has_text_id else ""
    own = [*("buyer" if each == "payer" else each for each in found.words), *(["number"] * found.is_numbered)]
    changed = " OR ".join(f"old.{each} IS NOT new.{each}" for each in own)
    op.execute(f"CREATE TRIGGER {index}_insert AFTER INSERT ON {table} BEGIN {first} {add} END")
    op.execute(
        f"CREATE TRIGGER {index}_update AFTER UPDATE OF {', '.join(own)} ON {table} WHEN {changed} "
        f"BEGIN {remove} {add} END"
    )
    op.execute(f"CREATE TRIGGER {index}_delete AFTER DELETE ON {table} BEGIN {remove} {last} END")
    if found.has_text_id:
        op.execute(f"INSERT OR IGNORE INTO search_numbers(id) SELECT id FROM {table} ORDER BY id")
    op.execute(f"INSERT INTO {index}(rowid, {listed}) SELECT {values(f'{table}.')} FROM {table}")


# --- PostgreSQL -------------------------------------------------------------------------------------------------------

_TERMS = rf"""
DECLARE found tsvector := to_tsvector('pg_catalog.simple', {{schema}}search_spelled(words));
BEGIN
  IF parts <> '' THEN
    found := found || array_to_tsvector(array(
      SELECT '~' || substr(word, at, {PART_CHARS})
      FROM unnest(string_to_array({{schema}}search_spelled(left(parts, {PARTS_OF_CHARS})), ' ')) AS word,
        generate_series(1, length(word) - 2) AS at));
  END IF;
  IF number > 0 THEN
    found := found || array_to_tsvector(ARRAY['{MARK}' || number]);
  END IF;
  RETURN found;
END"""

# NULL, which matches nothing, where there is no word. A word has letters, digits and marks: none needs an escape.
_ASKED = rf"""
SELECT string_agg(
  CASE WHEN word LIKE '{MARK}_%' THEN
    CASE WHEN numbers THEN quote_literal(word) ELSE quote_literal(substr(word, 2)) END
  ELSE '(' || coalesce(nullif(to_tsquery('pg_catalog.simple', word || CASE WHEN at = count THEN ':*' ELSE '' END)::text,
      ''), quote_literal(left(word, 255)))
    || CASE WHEN parts AND length(word) BETWEEN 3 AND {PART_CHARS} THEN ' | ' || quote_literal('~' || word) || ':*'
       ELSE '' END
    || CASE WHEN numbers AND word ~ '^[0-9]+$' THEN ' | ' || quote_literal('{MARK}' || ltrim(word, '0')) ELSE '' END
    || ')'
  END, ' & ')::tsquery
FROM (
  SELECT word, at, count(*) OVER ()
  FROM unnest(string_to_array(btrim({{schema}}search_spelled(value)), ' ')) WITH ORDINALITY AS every(word, at)
  WHERE word <> '') AS words"""


def _postgresql() -> None:
    text = "{schema}search_fold(value)"
    for letter, spelling in SPELLED.items():
        if len(spelling) > 1:
            text = f"replace({text}, '{letter}', '{spelling}')"
    single = {letter: spelling for letter, spelling in SPELLED.items() if len(spelling) == 1}
    _function(
        "search_spelled(value text)",
        "text",
        f"SELECT lower(translate({text}, '{''.join(single)}', '{''.join(single.values())}'))",
    )
    # SQL would be put in the place of the call, and the planner would not see what it costs to take a text apart.
    _function("search_terms(words text, parts text, number bigint)", "tsvector", _TERMS, "plpgsql COST 10000")
    _function("search_asked(value text, parts boolean, numbers boolean)", "tsquery", _ASKED)
    for table, found in searched("postgresql").items():

        def joined(names: tuple[str, ...], words: dict[str, str] = found.words) -> str:
            return " || ' ' || ".join(f"coalesce({words[name].format(row='')}, '')" for name in names) or "''"

        number = "number" if found.is_numbered else "0"
        terms = f"search_terms({joined(tuple(found.words))}, {joined(found.inside)}, {number})"
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS search_{table}")
        op.execute(f"CREATE INDEX CONCURRENTLY search_{table} ON {table} USING gin ({terms})")
    op.execute("DROP FUNCTION IF EXISTS search_vector(text)")
    op.execute("DROP FUNCTION IF EXISTS search_query(text)")


def _function(signature: str, answer: str, body: str, language: str = "sql") -> None:
    # A dump is restored with no search path: functions of ours are named with their schema.
    schema = op.get_bind().scalar(sa.text("SELECT quote_ident(current_schema()) || '.'"))
    body = body.replace("{schema}", schema)
    op.get_bind().exec_driver_sql(
        f"CREATE OR REPLACE FUNCTION {signature} RETURNS {answer} "
        f"LANGUAGE {language} IMMUTABLE PARALLEL SAFE AS $$ {body} $$"
    )
