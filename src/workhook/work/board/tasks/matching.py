"""Full-text conditions with the same meaning on SQLite (FTS5) and PostgreSQL.

A record matches if it contains every word of the query; the last word may be the beginning of one. In titles, names and
invoice numbers, words of three or more characters also match inside other words: `board` finds `dashboard`. Both `#12`
and `12` find the tasks with that number. Matching ignores case and accents on Latin letters, and treats `ß` as `ss`.
Spaces, quotes, `*`, `-` and other punctuation only separate words; no character of a query is syntax. Text without
spaces, as in Chinese or Japanese, is one word.

`search_indexes` creates the indexes.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from workhook.work.board.tasks.search_indexes import MARK, REPLACEMENTS, SEARCHED, terms_of

QUERY_MAX_CHARS = 255
PART_MIN = 3
"""The minimum length of a query word that is also found inside other words."""

_NUMBER = re.compile(r"(?<![\w#])#(\d{1,18})(?!\w)")


def words_of(text: str) -> str:
    """Return the value of the parameter `q` for the conditions below: the words, separated by spaces.

    An empty `q` finds nothing.
    """
    # NFC combines a letter and a following accent into one character, which is then not split.
    composed = unicodedata.normalize("NFC", text).translate(REPLACEMENTS)
    numbered = _NUMBER.sub(lambda found: f" {MARK}{int(found[1])} ", composed)
    runs = (
        "".join(run)
        for belongs, run in groupby(numbered, lambda each: unicodedata.category(each)[0] in "LMN")
        if belongs
    )
    return " ".join(run for run in runs if any(unicodedata.category(each)[0] != "M" for each in run))


class matches(sa.ColumnElement[bool]):  # noqa: N801  # named like the SQL it renders
    """The condition that a row of `table` contains the words of the parameter `q`, which `words_of` prepares.

    `row` provides the columns if they were read by an earlier part of the statement.
    """

    inherit_cache = False
    type = sa.Boolean()

    def __init__(self, table: sa.Table, row: sa.FromClause | None = None) -> None:
        self.row_id = table.c.id
        self.row = table if row is None else row
        self.table_name = table.name
        self.searched = SEARCHED[table.name]
        self.parameter = sa.bindparam("q", type_=sa.Text())


@compiles(matches, "postgresql")
def _matches_postgresql(element: matches, compiler: SQLCompiler, **kw: Any) -> str:
    searched = element.searched
    terms = terms_of(searched, lambda name: compiler.process(searched.text(element.row, name), **kw))
    kinds = f"{str(bool(searched.inside)).lower()}, {str(bool(searched.number)).lower()}"
    return f"{terms} @@ search_asked({compiler.process(element.parameter, **kw)}, {kinds})"


PREFIXED_MAX = 16
"""On SQLite: the maximum number of words with the prefix that are searched by name, at about 55 µs each.

With more words, the prefix itself is searched, for which SQLite collects all matching rows before it returns the first.
"""
TERM_MAX = 255
"""The maximum length of such a word. The index cuts words of more than 32,768 bytes, even within a character."""

# Each word is quoted, so none is an operator. `terms` skips from one word of the index to the next. How the index folds
# the last word is known here only for ASCII; a word taken from the index always finds itself.
_WANTED = f"""(
WITH RECURSIVE said(q) AS (SELECT {{parameter}}),
halves(q, first_words, last_word) AS (
  SELECT q, rtrim(q, replace(q, ' ', '')), lower(substr(q, length(rtrim(q, replace(q, ' ', ''))) + 1)) FROM said),
terms(term) AS (
  SELECT (SELECT term FROM {{index}}_terms WHERE term >= last_word ORDER BY term LIMIT 1)
  FROM halves WHERE last_word <> '' AND last_word NOT GLOB '*[^0-9a-z]*'
  UNION ALL
  SELECT (SELECT term FROM {{index}}_terms WHERE term >= terms.term || char(1) ORDER BY term LIMIT 1)
  FROM terms, halves WHERE substr(terms.term, 1, length(last_word)) = last_word
  LIMIT {PREFIXED_MAX + 2}),
named(number, longest, list) AS (
  SELECT count(*), max(length(term)), group_concat('"' || term || '"', ' OR ') FROM terms, halves
  WHERE substr(term, 1, length(last_word)) = last_word),
whole(each) AS (
  SELECT {{whole}} FROM halves, json_each('["' || replace(trim(first_words), ' ', '","') || '"]')
  WHERE first_words <> '')
SELECT coalesce((SELECT group_concat(each, ' AND ') || ' AND ' FROM whole), '') || {{last}}
FROM named, halves)"""  # noqa: S608  # our own numbers
_BEGINNING = f"""CASE WHEN number BETWEEN 1 AND {PREFIXED_MAX} AND longest <= {TERM_MAX}
  THEN '(' || list || ')' ELSE '"' || last_word || '"*' END"""


def _sqlite_query(table: str, parameter: str) -> str:
    searched = SEARCHED[table]
    texts = ""
    if searched.inside:  # these have their own column
        texts = f"{{{' '.join('payer' if each in searched.names else each for each in searched.words)}}} : "

    def term(word: str, found: str, inner: str) -> str:
        if searched.inside:
            found = f"CASE WHEN length({word}) < {PART_MIN} THEN '{texts}' || {found} ELSE {inner} END"
        if searched.number:
            found = f"""'(' || {found} || CASE WHEN {word} GLOB '*[^0-9]*' OR {word} = '' THEN ''
              ELSE ' OR number : "{MARK}' || ltrim({word}, '0') || '"' END || ')'"""
        numbered = f"""'{"number : " if searched.number else ""}"' || substr({word}, {1 if searched.number else 2})"""
        return f"""CASE WHEN {word} GLOB '{MARK}[0-9]*' THEN {numbered} || '"' ELSE {found} END"""

    whole = term("value", """'"' || value || '"'""", """'("' || value || '" OR parts : "' || value || '" *)'""")
    last = term("last_word", _BEGINNING, _BEGINNING)
    return _WANTED.format(parameter=parameter, index=f"search_{table}", whole=whole, last=last)


@compiles(matches, "sqlite")
def _matches_sqlite(element: matches, compiler: SQLCompiler, **kw: Any) -> str:
    row_id, parameter = compiler.process(element.row_id, **kw), compiler.process(element.parameter, **kw)
    index, wanted = f"search_{element.table_name}", _sqlite_query(element.table_name, parameter)
    found = f"SELECT rowid FROM {index} WHERE {index} MATCH {wanted}"  # noqa: S608  # our own names
    if isinstance(element.row_id.type, sa.Text):
        # Full-text rows have numbers; this table maps them to IDs.
        found = f"SELECT id FROM search_numbers WHERE number IN ({found})"  # noqa: S608  # built above
    return f"{row_id} IN ({found})"


def has_words(table: sa.Table) -> sa.TextClause:
    """Return the condition on SQLite that a row of the full-text table contains the words of `q`.

    In descending order of `rowid`, the newest rows come first, and only as many as needed are read.
    """
    condition = f"search_{table.name} MATCH {_sqlite_query(table.name, ':q')}"
    return sa.text(condition).bindparams(sa.bindparam("q", type_=sa.Text()))


numbers = sa.table("search_numbers", sa.column("number", sa.Integer), sa.column("id", sa.Text))
"""On SQLite: maps the numbers of full-text rows to IDs. An integer ID is its own number and has no row here."""

FOUND_NUMBER = "found_number"


def index_of(table: sa.Table) -> sa.TableClause:
    """Return the full-text table for `table` on SQLite."""
    return sa.table(f"search_{table.name}", sa.column("rowid", sa.Integer))


def number_of(row_id: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """Return a row's number in the full-text table on SQLite."""
    if not isinstance(row_id.type, sa.Text):
        return row_id
    return sa.select(numbers.c.number).where(numbers.c.id == row_id).scalar_subquery()


def matches_in_range(some: sa.CTE, table: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition on SQLite that a row of `some`, which has already been read, contains the words of `q`.

    Its column `found_number` is the one of `number_of`. The matches between the oldest and the newest row are read
    once.
    """
    words = index_of(table)
    these = some.alias(f"these_{table.name}")
    low, high = (sa.select(bound(these.c[FOUND_NUMBER])).scalar_subquery() for bound in (sa.func.min, sa.func.max))
    each = words.c.rowid + sa.literal_column("0")  # the addition prevents a separate index lookup per row
    found = sa.select(words.c.rowid).where(
        has_words(table), words.c.rowid >= low, words.c.rowid <= high, each.in_(sa.select(these.c[FOUND_NUMBER]))
    )
    return some.c[FOUND_NUMBER].in_(found)


def fold_text(text: str) -> str:
    """Return the text folded as in comparisons of words."""
    return "".join(map(fold_letter, text))


def fold_letter(character: str) -> str:
    """Return a letter in lower case, without its accent if it is Latin; `ß` becomes `ss`."""
    spelled = character.translate(REPLACEMENTS)
    if len(spelled) > 1:
        return spelled
    lower = spelled.lower()
    base = unicodedata.normalize("NFD", lower)[:1]
    return base if base.isascii() else lower[:1]
