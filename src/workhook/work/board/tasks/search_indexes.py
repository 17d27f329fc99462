"""The full-text indexes: the searched columns of each table, and the statements that create the indexes.

All index names begin with `search_`. SQLite uses full-text tables, which are kept up to date by triggers; PostgreSQL
uses expression indexes. On SQLite, `parts` contains all endings of each word of a title or name, and `number` contains
a task's number, prefixed with a mark that no word starts with. PostgreSQL has the same data in one vector, in which
parts begin with `~`. `matching` queries the indexes.
"""

# ruff: noqa: S608  # the statements are made of names in this file

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import sqlalchemy as sa

from workhook.storage.dialects import json_member
from workhook.storage.schema import ddl

PART_CHARS = 64
"""The maximum length of an indexed part."""
PARTS_OF_CHARS = 512
"""The number of characters at the start of a text whose words are split into parts."""

MARK = "\N{MODIFIER LETTER PRIME}"
"""A letter that marks the number of a task in the index."""

REPLACEMENTS = str.maketrans({
    "ß": "ss", "ẞ": "ss", "æ": "ae", "Æ": "ae", "œ": "oe", "Œ": "oe", "ø": "o", "Ø": "o", "ł": "l", "Ł": "l",
    "đ": "d", "Đ": "d", "\u0131": "i",
})  # fmt: skip
"""Replacements for letters whose accent cannot be removed."""


class Texts(NamedTuple):
    """The searched columns of a table.

    Words of the columns `inside` are also found by their inner parts. The columns `names` contain JSON whose member
    `name` is searched.
    """

    words: tuple[str, ...]
    inside: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    number: str | None = None
    has_text_id: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.words, *([self.number] if self.number else []))

    def written(self, name: str) -> str:
        return f"({name}::json ->> 'name')" if name in self.names else name

    def text(self, row: sa.FromClause, name: str) -> sa.ColumnElement[Any]:
        return json_member(row.c[name], "name") if name in self.names else row.c[name]


_INVOICE = ("invoice_number", "buyer", "bill_to")
SEARCHED = {
    "tasks": Texts(("title", "description"), ("title",), number="number", has_text_id=True),
    "files": Texts(("title",), ("title",), has_text_id=True),
    "task_comments": Texts(("text",)),
    "file_comments": Texts(("text",)),
    "file_comment_replies": Texts(("plain_body",)),
    "invoices": Texts(_INVOICE, _INVOICE, names=("buyer",), has_text_id=True),
    "credit_notes": Texts(("credit_note_number", "reason"), ("credit_note_number",), has_text_id=True),
}


@ddl
def search_indexes(dialect: str) -> Iterable[str]:
    if dialect == "postgresql":
        yield from _postgresql()
        return
    # VACUUM renumbers tables without an INTEGER PRIMARY KEY, so the numbers have their own table.
    yield "CREATE TABLE search_numbers (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE)"
    for table, searched in SEARCHED.items():
        yield from _full_text_table(table, searched)


# --- SQLite -----------------------------------------------------------------------------------------------------------


def _full_text_table(table: str, searched: Texts) -> Iterator[str]:
    index, columns = f"search_{table}", ["payer" if each in searched.names else each for each in searched.words]
    columns += [*(["parts"] if searched.inside else []), *(["number"] if searched.number else [])]
    listed = ", ".join(columns)
    # Contentless, because the text is stored only in its own table. Deleting a row requires the text that was indexed.
    yield f"CREATE VIRTUAL TABLE {index} USING fts5({listed}, content='', tokenize='unicode61 remove_diacritics 2')"
    # The vocabulary of the index can be read, so the prefix `boar` is searched as `board` or `boards`.
    yield f"CREATE VIRTUAL TABLE {index}_terms USING fts5vocab({index}, instance)"
    add = f"INSERT INTO {index}(rowid, {listed}) VALUES ({_values(searched, 'new.')});"
    remove = f"INSERT INTO {index}({index}, rowid, {listed}) VALUES ('delete', {_values(searched, 'old.')});"
    first = "INSERT INTO search_numbers(id) VALUES (new.id);" if searched.has_text_id else ""
    last = "DELETE FROM search_numbers WHERE id = old.id;" if searched.has_text_id else ""
    changed = " OR ".join(f"old.{each} IS NOT new.{each}" for each in searched.columns)
    yield f"CREATE TRIGGER {index}_insert AFTER INSERT ON {table} BEGIN {first} {add} END"
    yield (
        f"CREATE TRIGGER {index}_update AFTER UPDATE OF {', '.join(searched.columns)} ON {table} WHEN {changed} "
        f"BEGIN {remove} {add} END"
    )
    yield f"CREATE TRIGGER {index}_delete AFTER DELETE ON {table} BEGIN {remove} {last} END"


def _values(searched: Texts, row: str) -> str:
    """Return the values of a row for the index, as SQL."""

    def text(name: str) -> str:
        return f"json_extract({row}{name}, '$.name')" if name in searched.names else f"{row}{name}"

    row_id = f"(SELECT number FROM search_numbers WHERE id = {row}id)" if searched.has_text_id else f"{row}id"
    values = [row_id, *(_spelled(text(each)) for each in searched.words)]
    if searched.inside:
        values.append(_parts(" || ' ' || ".join(f"coalesce({text(each)}, '')" for each in searched.inside)))
    if searched.number:
        values.append(f"CASE WHEN {row}number > 0 THEN '{MARK}' || {row}number END")
    return ", ".join(values)


def _spelled(text: str) -> str:
    for letter, spelling in REPLACEMENTS.items():
        text = f"replace({text}, '{chr(letter)}', '{spelling}')"
    return text


def _parts(text: str) -> str:
    """Return the endings (three characters or more) of each word of a text, as SQL: `board oard ard` for `board`."""
    return (
        f"(WITH RECURSIVE rest(t) AS (SELECT {_spelled(f'substr({text}, 1, {PARTS_OF_CHARS})')} "
        "UNION ALL SELECT substr(t, 2) FROM rest WHERE length(t) > 3) "
        f"SELECT group_concat(substr(t, 1, min({PART_CHARS}, instr(t || ' ', ' ') - 1)), ' ') FROM rest "
        "WHERE instr(substr(t, 1, 3), ' ') = 0)"
    )


# --- PostgreSQL -------------------------------------------------------------------------------------------------------

# ASCII characters that are neither letters nor digits, and punctuation and symbols of other blocks, for databases whose
# locale counts everything outside ASCII as letters.
_SEPARATORS = (
    r"\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7"
    r"\u2000-\u206f\u20a0-\u20cf\u2190-\u245f\u2500-\u2bff\u3000-\u3004\u3008-\u3020\u3030"
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\U0001f000-\U0001faff"
)
# The parser would keep `a.b`, `a/b` and `a@b` together, unlike FTS5, so it is given only words and spaces.
_LETTERS = r"regexp_replace(normalize(value, NFD), '([A-Za-z])[\u0300-\u036f]+', '\1', 'g')"  # é becomes e, й stays й
_FOLD = rf"SELECT regexp_replace(normalize({_LETTERS}, NFC), '[{_SEPARATORS}]+', ' ', 'g')"

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

# Without words, the result is NULL, which matches nothing. Words contain only letters, digits and marks, so they need
# no escaping.
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


def _postgresql() -> Iterator[str]:
    yield _function("search_fold(value text)", "text", _FOLD)
    text = "{schema}search_fold(value)"
    single = {chr(letter): spelling for letter, spelling in REPLACEMENTS.items() if len(spelling) == 1}
    for letter, spelling in REPLACEMENTS.items():
        if len(spelling) > 1:
            text = f"replace({text}, '{chr(letter)}', '{spelling}')"
    letters = f"SELECT lower(translate({text}, '{''.join(single)}', '{''.join(single.values())}'))"
    yield _function("search_spelled(value text)", "text", letters)
    # A function in SQL would be inlined, hiding the cost of splitting a text from the planner.
    yield _function("search_terms(words text, parts text, number bigint)", "tsvector", _TERMS, "plpgsql COST 10000")
    yield _function("search_asked(value text, parts boolean, numbers boolean)", "tsquery", _ASKED)
    for table, searched in SEARCHED.items():
        yield f"CREATE INDEX search_{table} ON {table} USING gin ({terms_of(searched, searched.written)})"


def terms_of(searched: Texts, text: Callable[[str], str]) -> str:
    """Return the indexed expression, which searches must repeat. `text` returns the SQL of a column."""

    def joined(names: tuple[str, ...]) -> str:
        return " || ' ' || ".join(f"coalesce({text(each)}, '')" for each in names) or "''"

    number = text(searched.number) if searched.number else "0"
    return f"search_terms({joined(searched.words)}, {joined(searched.inside)}, {number})"


def _function(signature: str, answer: str, body: str, language: str = "sql") -> str:
    return f"CREATE FUNCTION {signature} RETURNS {answer} LANGUAGE {language} IMMUTABLE PARALLEL SAFE AS $$ {body} $$"
