"""Full-text conditions that mean the same on SQLite (FTS5) and on PostgreSQL.

A record matches if it has every word that was asked for; the last one may be the beginning of a word. Case counts for
nothing, nor do accents on Latin letters. What stands between words (space, quotes, `*`, `-` …) only separates them:
nothing that a caller writes is syntax. Text without spaces, as in Chinese or Japanese, is one word, which is found by
its beginning.

The migration 0004 makes the indexes; all that belongs to them is named `search_…`.
"""

from __future__ import annotations

import unicodedata
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from workhook.work.tasks.schemas import tasks

QUERY_MAX_CHARS = 255


def words_of(text: str) -> str:
    """The parameter `q` of the conditions below: the words, with one space between. Empty, it matches nothing."""
    # A letter and the accent that was written after it are one character then, and are not taken apart.
    composed = unicodedata.normalize("NFC", text)
    runs = ("".join(run) for belongs, run in groupby(composed, _belongs_to_a_word) if belongs)
    return " ".join(run for run in runs if any(unicodedata.category(each)[0] != "M" for each in run))


def _belongs_to_a_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


class matches(sa.ColumnElement[bool]):  # noqa: N801  # reads like the SQL it stands for
    """Whether the `texts` of a row have the words of the parameter `q`, which `words_of` made.

    `row_id` is the row's id, and `texts` are as the migration indexed them. The index is named `search_` and the table.
    """

    inherit_cache = False
    type = sa.Boolean()

    def __init__(self, row_id: sa.Column[Any], *texts: sa.ColumnElement[Any]) -> None:
        self.row_id = row_id
        self.texts: tuple[Any, ...] = texts  # columns of a table, or of what was read of one
        self.index = f"search_{row_id.table.name}"
        self.parameter = sa.bindparam("q", type_=sa.Text())


@compiles(matches, "postgresql")
def _matches_postgresql(element: matches, compiler: SQLCompiler, **kw: Any) -> str:
    parts = [(compiler.process(each, **kw), each.nullable) for each in element.texts]
    # To the letter the expression that the index is over.
    text = " || ' ' || ".join(f"coalesce({part}, '')" if nullable else part for part, nullable in parts)
    return f"search_vector({text}) @@ search_query({compiler.process(element.parameter, **kw)})"


PREFIXED_MAX = 16
"""On SQLite: words that begin as the last one does, and are asked for by their names. Each takes about 55 µs. More
are asked for by that beginning, which is put together from all rows that have one before the first is given."""
TERM_MAX = 255
"""Characters of such a word. The index cuts those of more than 32,768 bytes, be it in a character."""

# Each word in quotes, so that none is an operator. `terms` leaps from one word of the index to the next. Only where the
# last word is ASCII it is plain here how the index writes it; what the index holds is found by itself again.
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
  WHERE substr(term, 1, length(last_word)) = last_word)
SELECT CASE WHEN number BETWEEN 1 AND {PREFIXED_MAX} AND longest <= {TERM_MAX}
  THEN CASE first_words WHEN '' THEN '' ELSE '("' || replace(trim(first_words), ' ', '" "') || '") AND ' END
    || '(' || list || ')'
  ELSE '"' || replace(q, ' ', '" "') || '"*' END
FROM named, halves)"""  # noqa: S608  # the numbers are ours


@compiles(matches, "sqlite")
def _matches_sqlite(element: matches, compiler: SQLCompiler, **kw: Any) -> str:
    row_id, parameter = compiler.process(element.row_id, **kw), compiler.process(element.parameter, **kw)
    wanted = _WANTED.format(parameter=parameter, index=element.index)
    found = f"SELECT rowid FROM {element.index} WHERE {element.index} MATCH {wanted}"  # noqa: S608  # names of ours
    if isinstance(element.row_id.type, sa.Text):
        # Full-text rows have numbers; this table says whose.
        found = f"SELECT id FROM search_numbers WHERE number IN ({found})"  # noqa: S608  # made above
    return f"{row_id} IN ({found})"


def has_words(index: str) -> sa.TextClause:
    """On SQLite: whether a row of the full-text table `index` has the words of `q`. Read by `rowid` backwards, the
    newest come first, and only as many as are wanted."""
    condition = f"{index} MATCH {_WANTED.format(parameter=':q', index=index)}"
    return sa.text(condition).bindparams(sa.bindparam("q", type_=sa.Text()))


def task_matches() -> matches:
    """On `tasks`: title and description have the words of the parameter `q`, which `words_of` makes."""
    return matches(tasks.c.id, tasks.c.title, tasks.c.description)


numbers = sa.table("search_numbers", sa.column("number", sa.Integer), sa.column("id", sa.Text))
"""On SQLite: full-text rows have numbers, and this table says whose. Where an id is a number, it is that one."""


def index_of(table: sa.Table) -> sa.TableClause:
    """On SQLite: the full-text table of a table's texts."""
    return sa.table(f"search_{table.name}", sa.column("rowid", sa.Integer))


def number_of(row_id: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """On SQLite: the number that a row has in the full-text table."""
    if not isinstance(row_id.type, sa.Text):
        return row_id
    return sa.select(numbers.c.number).where(numbers.c.id == row_id).scalar_subquery()


def are_found(some: sa.CTE, table: sa.Table) -> sa.ColumnElement[bool]:
    """On SQLite: whether a row of `some`, which were read before, has the words of `q`. `number` is what `number_of`
    gives. What has the words is gone through once, between the oldest and the newest of these."""
    words = index_of(table)
    these = some.alias(f"these_{table.name}")
    low, high = (sa.select(bound(these.c.number)).scalar_subquery() for bound in (sa.func.min, sa.func.max))
    each = words.c.rowid + sa.literal_column("0")  # so that none is looked up by itself
    found = sa.select(words.c.rowid).where(
        has_words(words.name), words.c.rowid >= low, words.c.rowid <= high, each.in_(sa.select(these.c.number))
    )
    return some.c.number.in_(found)
