"""The indexes of words: what is searched of each table, and what makes its index on either database.

All that belongs to them is named `search_…`. SQLite has full-text tables that triggers keep in step, PostgreSQL has
indexes over an expression. On SQLite `parts` has what each word of a title or a name ends with, and `number` the number
of a task after a mark that no word begins with. PostgreSQL has the same in one vector, where a part begins with `~`.
`matching` asks them.
"""

# ruff: noqa: S608  # the statements are made of names that stand here

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import sqlalchemy as sa

from workhook.storage.dialects import json_member
from workhook.storage.schema import ddl

PART_CHARS = 64
"""Characters of a part that the index holds."""
PARTS_OF_CHARS = 512
"""Characters at the head of a text whose words are taken apart."""

MARK = "\N{MODIFIER LETTER PRIME}"
"""A letter that stands before the number of a task in the index of words."""

SPELLED = str.maketrans({
    "ß": "ss", "ẞ": "ss", "æ": "ae", "Æ": "ae", "œ": "oe", "Œ": "oe", "ø": "o", "Ø": "o", "ł": "l", "Ł": "l",
    "đ": "d", "Đ": "d", "\u0131": "i",
})  # fmt: skip
"""Letters that have no accent which could be taken off, and what they are found by."""


class Texts(NamedTuple):
    """The columns of a table that are searched. The inner parts of words of `inside` are found, too. A column of
    `names` is JSON with a `name`, which is what is searched."""

    words: tuple[str, ...]
    inside: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    number: str | None = None
    has_text_id: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.words, *([self.number] if self.number else []))

    def texts(self, row: sa.FromClause, names: tuple[str, ...]) -> list[sa.ColumnElement[Any]]:
        return [json_member(row.c[each], "name") if each in self.names else row.c[each] for each in names]


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
    return _sqlite() if dialect == "sqlite" else _postgresql()


# --- SQLite -----------------------------------------------------------------------------------------------------------


def _sqlite() -> Iterator[str]:
    # A table without an INTEGER PRIMARY KEY numbers its rows anew when the file is vacuumed: so these have a table.
    yield "CREATE TABLE search_numbers (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE)"
    for table, searched in SEARCHED.items():
        yield from _full_text_table(table, searched)


def _full_text_table(table: str, searched: Texts) -> Iterator[str]:
    index, columns = f"search_{table}", ["payer" if each in searched.names else each for each in searched.words]
    columns += [*(["parts"] if searched.inside else []), *(["number"] if searched.number else [])]
    listed = ", ".join(columns)
    # Contentless: the text is only in its own table. Removing a row then takes what was indexed of it.
    yield f"CREATE VIRTUAL TABLE {index} USING fts5({listed}, content='', tokenize='unicode61 remove_diacritics 2')"
    # The words that the index holds can be read: what begins with `boar` is asked for as `board` or `boards`.
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
    """What the index gets of a row."""

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
    for letter, spelling in SPELLED.items():
        text = f"replace({text}, '{chr(letter)}', '{spelling}')"
    return text


def _parts(text: str) -> str:
    """What each word of a text ends with: `board oard ard` of `board`."""
    return (
        f"(WITH RECURSIVE rest(t) AS (SELECT {_spelled(f'substr({text}, 1, {PARTS_OF_CHARS})')} "
        "UNION ALL SELECT substr(t, 2) FROM rest WHERE length(t) > 3) "
        f"SELECT group_concat(substr(t, 1, min({PART_CHARS}, instr(t || ' ', ' ') - 1)), ' ') FROM rest "
        "WHERE instr(substr(t, 1, 3), ' ') = 0)"
    )


# --- PostgreSQL -------------------------------------------------------------------------------------------------------

# ASCII that is neither letter nor digit; punctuation and symbols of the other blocks, for databases whose locale takes
# all that is not ASCII for letters.
_SEPARATORS = (
    r"\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7"
    r"\u2000-\u206f\u20a0-\u20cf\u2190-\u245f\u2500-\u2bff\u3000-\u3004\u3008-\u3020\u3030"
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\U0001f000-\U0001faff"
)
# The parser would keep `a.b`, `a/b` and `a@b` together, which FTS5 does not: it is shown words and spaces only.
_LETTERS = r"regexp_replace(normalize(value, NFD), '([A-Za-z])[\u0300-\u036f]+', '\1', 'g')"  # é is e, й remains й
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


def _postgresql() -> Iterator[str]:
    yield _function("search_fold(value text)", "text", _FOLD)
    text = "{schema}search_fold(value)"
    single = {chr(letter): spelling for letter, spelling in SPELLED.items() if len(spelling) == 1}
    for letter, spelling in SPELLED.items():
        if len(spelling) > 1:
            text = f"replace({text}, '{chr(letter)}', '{spelling}')"
    letters = f"SELECT lower(translate({text}, '{''.join(single)}', '{''.join(single.values())}'))"
    yield _function("search_spelled(value text)", "text", letters)
    # SQL would be put in the place of the call, and the planner would not see what it costs to take a text apart.
    yield _function("search_terms(words text, parts text, number bigint)", "tsvector", _TERMS, "plpgsql COST 10000")
    yield _function("search_asked(value text, parts boolean, numbers boolean)", "tsquery", _ASKED)
    for table, searched in SEARCHED.items():
        yield f"CREATE INDEX search_{table} ON {table} USING gin ({_terms(searched)})"


def _terms(searched: Texts) -> str:
    """The expression of an index; `matching` asks it to the letter."""

    def joined(names: tuple[str, ...]) -> str:
        texts = (f"({each}::json ->> 'name')" if each in searched.names else each for each in names)
        return " || ' ' || ".join(f"coalesce({each}, '')" for each in texts) or "''"

    return f"search_terms({joined(searched.words)}, {joined(searched.inside)}, {searched.number or 0})"


def _function(signature: str, answer: str, body: str, language: str = "sql") -> str:
    return f"CREATE FUNCTION {signature} RETURNS {answer} LANGUAGE {language} IMMUTABLE PARALLEL SAFE AS $$ {body} $$"
