"""Full-text conditions that mean the same on SQLite (FTS5) and on PostgreSQL.

A record matches if it has every word of the query; the last one may be the beginning of a word. In titles, names and
numbers of invoices each word of three characters or more may also be inside of one: `board` finds `dashboard`. `#12`
finds the tasks with that number, and so does `12`. Case makes no difference, nor do accents on Latin letters; `ß` is
`ss`. Spaces, quotes, `*`, `-` and the like only separate words: no character of a query is syntax. Text without
spaces, as in Chinese or Japanese, is one word.

`search_indexes` makes what is asked here.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from workhook.work.board.tasks.schemas import tasks
from workhook.work.board.tasks.search_indexes import MARK, SEARCHED, SPELLED

QUERY_MAX_CHARS = 255
PART_MIN = 3
"""Characters of a word that is found inside of others."""

_NUMBER = re.compile(r"(?<![\w#])#(\d{1,18})(?!\w)")


def words_of(text: str) -> str:
    """The parameter `q` of the conditions below: the words, with one space between. Empty, it matches nothing."""
    # A letter and the accent that was written after it are one character then, and are not taken apart.
    composed = unicodedata.normalize("NFC", text).translate(SPELLED)
    numbered = _NUMBER.sub(lambda found: f" {MARK}{int(found[1])} ", composed)
    runs = ("".join(run) for belongs, run in groupby(numbered, _belongs_to_a_word) if belongs)
    return " ".join(run for run in runs if any(unicodedata.category(each)[0] != "M" for each in run))


def _belongs_to_a_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


class matches(sa.ColumnElement[bool]):  # noqa: N801  # reads like the SQL it stands for
    """Whether a row of `table` has the words of the parameter `q`, which `words_of` made. `row`: where the columns are,
    if they were read before."""

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
    # To the letter the expression that the index is over.
    def joined(names: tuple[str, ...]) -> str:
        texts = (compiler.process(each, **kw) for each in searched.texts(element.row, names))
        return " || ' ' || ".join(f"coalesce({text}, '')" for text in texts) or "''"

    searched = element.searched
    number = compiler.process(element.row.c[searched.number], **kw) if searched.number else "0"
    kinds = f"{str(bool(searched.inside)).lower()}, {str(bool(searched.number)).lower()}"
    return (
        f"search_terms({joined(searched.words)}, {joined(searched.inside)}, {number}) "
        f"@@ search_asked({compiler.process(element.parameter, **kw)}, {kinds})"
    )


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
  WHERE substr(term, 1, length(last_word)) = last_word),
whole(each) AS (
  SELECT {{whole}} FROM halves, json_each('["' || replace(trim(first_words), ' ', '","') || '"]')
  WHERE first_words <> '')
SELECT coalesce((SELECT group_concat(each, ' AND ') || ' AND ' FROM whole), '') || {{last}}
FROM named, halves)"""  # noqa: S608  # the numbers are ours
_BEGINNING = f"""CASE WHEN number BETWEEN 1 AND {PREFIXED_MAX} AND longest <= {TERM_MAX}
  THEN '(' || list || ')' ELSE '"' || last_word || '"*' END"""


def _wanted(table: str, parameter: str) -> str:
    """On SQLite: what the full-text table of `table` is asked for."""
    searched = SEARCHED[table]
    texts = ""
    if searched.inside:  # which have a column of their own
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
    index, wanted = f"search_{element.table_name}", _wanted(element.table_name, parameter)
    found = f"SELECT rowid FROM {index} WHERE {index} MATCH {wanted}"  # noqa: S608  # names of ours
    if isinstance(element.row_id.type, sa.Text):
        # Full-text rows have numbers; this table says whose.
        found = f"SELECT id FROM search_numbers WHERE number IN ({found})"  # noqa: S608  # made above
    return f"{row_id} IN ({found})"


def has_words(table: sa.Table) -> sa.TextClause:
    """On SQLite: whether a row of the full-text table of `table` has the words of `q`. Read by `rowid` backwards, the
    newest come first, and only as many as are wanted."""
    condition = f"search_{table.name} MATCH {_wanted(table.name, ':q')}"
    return sa.text(condition).bindparams(sa.bindparam("q", type_=sa.Text()))


def task_matches() -> matches:
    """On `tasks`: title, description and number have the words of the parameter `q`, which `words_of` makes."""
    return matches(tasks)


numbers = sa.table("search_numbers", sa.column("number", sa.Integer), sa.column("id", sa.Text))
"""On SQLite: full-text rows have numbers, and this table says whose. Where an id is a number, it is that one."""

FOUND_NUMBER = "found_number"


def index_of(table: sa.Table) -> sa.TableClause:
    """On SQLite: the full-text table of a table's texts."""
    return sa.table(f"search_{table.name}", sa.column("rowid", sa.Integer))


def number_of(row_id: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """On SQLite: the number that a row has in the full-text table."""
    if not isinstance(row_id.type, sa.Text):
        return row_id
    return sa.select(numbers.c.number).where(numbers.c.id == row_id).scalar_subquery()


def are_found(some: sa.CTE, table: sa.Table) -> sa.ColumnElement[bool]:
    """On SQLite: whether a row of `some`, which were read before, has the words of `q`. `found_number` is what
    `number_of` gives. What has the words is gone through once, between the oldest and the newest of these."""
    words = index_of(table)
    these = some.alias(f"these_{table.name}")
    low, high = (sa.select(bound(these.c[FOUND_NUMBER])).scalar_subquery() for bound in (sa.func.min, sa.func.max))
    each = words.c.rowid + sa.literal_column("0")  # so that none is looked up by itself
    found = sa.select(words.c.rowid).where(
        has_words(table), words.c.rowid >= low, words.c.rowid <= high, each.in_(sa.select(these.c[FOUND_NUMBER]))
    )
    return some.c[FOUND_NUMBER].in_(found)


def folded(text: str) -> str:
    """The text as words are compared, without the places of its letters."""
    return "".join(map(folded_letter, text))


def folded_letter(character: str) -> str:
    """In lower case, a Latin letter without its accent, `ß` as `ss`."""
    spelled = character.translate(SPELLED)
    if len(spelled) > 1:
        return spelled
    lower = spelled.lower()
    base = unicodedata.normalize("NFD", lower)[:1]
    return base if base.isascii() else lower[:1]
