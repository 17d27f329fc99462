"""A rule for all SQL statements: a subquery must not have a table in its FROM that an enclosing query has, too.

Such a subquery reads all rows of the table, of every tenant, although it was meant to read the row of the enclosing
query. SQLAlchemy correlates a subquery only with the query immediately around it, not with outer ones, unless told to
(`correlate`). If all rows are intended, the table must have another name in the subquery (`alias`).

The rule checks the SQL sent to the database. `clashes` checks one statement, and `violations` checks every statement
defined at module level. Tests compile with `refuse`, so that statements built for each request are checked as well.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.sql.selectable import SelectBase

import workhook
from workhook.storage import dialects
from workhook.storage.statements import PerDialect

_TOKEN = re.compile(r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | [\w$]+(?:\.(?:[\w$]+|"[^"]*"))* | \S""", re.VERBOSE)
_ENDS_FROM = frozenset(
    {
        "WHERE", "GROUP", "ORDER", "LIMIT", "OFFSET", "HAVING", "WINDOW", "FOR", "RETURNING", "UNION", "EXCEPT",
        "INTERSECT", "SET", "SELECT", "VALUES", "FROM",
    }
)  # fmt: skip
_BEGIN_FROM = frozenset(
    {("FROM", "SELECT"), ("FROM", "UPDATE"), ("FROM", "DELETE"), ("UPDATE", "UPDATE"), ("USING", "DELETE")}
)
_COMPOUND = frozenset({"UNION", "EXCEPT", "INTERSECT"})
_BEGINS = frozenset({"SELECT", "WITH", "VALUES"})
_NO_ALIAS = _ENDS_FROM | {
    "ON", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "OUTER", "USING", "AS", "DEFAULT",
}  # fmt: skip
_BEFORE_TABLE = frozenset({"JOIN", "ONLY", "LATERAL"})

_NESTED = re.compile(r"\bLEFT OUTER JOIN \((?!SELECT\b)")

Statement = SelectBase | UpdateBase | PerDialect


class Group(list["str | Group"]):
    """The tokens between two parentheses."""


class Clash(AssertionError):
    """A violation of the rule."""


class _From(NamedTuple):
    """A FROM clause.

    `names` are the names by which columns refer to its tables. `derived` are its subqueries, which do not see these
    names. `rest` are the parts that see them: join conditions and function arguments.
    """

    names: list[str]
    derived: list[Group]
    rest: Group


def refuse(sql: str) -> None:
    """Raise `Clash` if a statement violates the rule.

    Also rejects a join nested in an outer join, because SQLite materializes all of its rows.
    """
    if _NESTED.search(sql):
        raise Clash(f"a join within an outer join: join one table after the other\n{sql}")
    if found := list(clashes(sql)):
        raise Clash(f"a subquery names {', '.join(found)}, as a query around it does: correlate it, or alias it\n{sql}")


def clashes(sql: str) -> list[str]:
    """Return the names in the FROM of a subquery that an enclosing query also has in its FROM."""
    return sorted(set(_query(_grouped(sql), frozenset())))


def _grouped(sql: str) -> Group:
    stack = [Group()]
    for piece in _TOKEN.findall(sql):
        match piece:
            case "(":
                stack.append(Group())
            case ")":
                closed = stack.pop()
                stack[-1].append(closed)
            case _:
                stack[-1].append(piece)
    assert len(stack) == 1, sql
    return stack[0]


def _word(token: str | Group) -> str:
    return token.upper() if isinstance(token, str) else ""


def _name(token: str) -> str:
    return token.rpartition(".")[2].strip('"').lower()


def _query(tokens: Group, around: frozenset[str]) -> Iterator[str]:
    """Yield the clashes of a query. `around` contains the names of the enclosing queries, which it can see."""
    start = 0
    if tokens and _word(tokens[0]) == "WITH":
        while start < len(tokens) and _word(tokens[start]) not in ("SELECT", "UPDATE", "DELETE", "INSERT", "VALUES"):
            if isinstance(each := tokens[start], Group):
                yield from _query(each, around)
            start += 1
    parts = [Group()]
    for token in tokens[start:]:
        if _word(token) in _COMPOUND:
            parts.append(Group())
        parts[-1].append(token)
    for part in parts:
        yield from _part(part, around)


def _part(tokens: Group, around: frozenset[str]) -> Iterator[str]:
    """Yield the clashes of one SELECT of a compound query, of an INSERT, UPDATE or DELETE, or of an expression."""
    verb = next((_word(each) for each in tokens if _word(each) not in (*_COMPOUND, "ALL")), "")
    sources: list[_From] = []
    rest = Group()
    at = 0
    while at < len(tokens):
        word, before = _word(tokens[at]), _word(tokens[at - 1]) if at else ""
        at += 1
        if (word, verb) not in _BEGIN_FROM or before == "DISTINCT":
            rest.append(tokens[at - 1])
            continue
        end = at
        while end < len(tokens) and _word(tokens[end]) not in _ENDS_FROM:
            end += 1
        sources.append(_from(Group(tokens[at:end])))
        at = end
    names = [name for each in sources for name in each.names]
    yield from (name for name in names if name in around)
    inside = around | set(names)
    for each in sources:
        for derived in each.derived:
            yield from _query(derived, around)
        yield from _expressions(each.rest, inside)
    yield from _expressions(rest, inside)


def _expressions(tokens: Group, around: frozenset[str]) -> Iterator[str]:
    for each in tokens:
        if isinstance(each, Group):
            yield from _query(each, around)


def _from(tokens: Group) -> _From:
    found = _From([], [], Group())
    place = True  # whether a table name is expected, rather than a condition
    at = 0
    while at < len(tokens):
        token, word = tokens[at], _word(tokens[at])
        at += 1
        if word == "," or word in _BEFORE_TABLE:
            place = True
        elif not place:
            found.rest.append(token)
        else:
            place = False
            if isinstance(token, Group):
                if token and _word(token[0]) in _BEGINS:
                    found.derived.append(token)
                else:
                    inner = _from(token)
                    found.names.extend(inner.names)
                    found.derived.extend(inner.derived)
                    found.rest.extend(inner.rest)
            at = _named(tokens, at, found, token)
    return found


def _named(tokens: Group, at: int, found: _From, token: str | Group) -> int:
    """Record the alias of a table, or its name if it has none. Returns the position after it."""
    if isinstance(token, str) and at < len(tokens) and isinstance(tokens[at], Group):  # a function
        found.rest.append(tokens[at])
        at += 1
    if at < len(tokens) and _word(tokens[at]) == "AS":
        at += 1  # the alias follows
    if at < len(tokens) and isinstance(alias := tokens[at], str) and alias != "," and _word(alias) not in _NO_ALIAS:
        found.names.append(_name(alias))
        return at + 1
    if isinstance(token, str):
        found.names.append(_name(token))
    return at


# --- the package -----------------------------------------------------------------------------------------------------


def statements() -> Iterator[tuple[str, Statement]]:
    """Yield every statement defined at module level, also inside containers, with its name."""
    for module in pkgutil.walk_packages(workhook.__path__, "workhook."):
        if not module.name.endswith("__main__") and ".migrations." not in module.name:  # these are scripts
            for name, value in vars(importlib.import_module(module.name)).items():
                yield from _held(f"{module.name}.{name}", value)


def _held(name: str, value: object) -> Iterator[tuple[str, Statement]]:
    if isinstance(value, SelectBase | UpdateBase | PerDialect):
        yield name, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _held(f"{name}[{key!r}]", each)
    elif isinstance(value, list | tuple | set | frozenset):
        for number, each in enumerate(value):
            yield from _held(f"{name}[{number}]", each)


def _sql(statement: Statement, dialect: Dialect) -> str:
    written = statement.of(dialect.name) if isinstance(statement, PerDialect) else statement
    assert isinstance(written, ClauseElement)
    return str(written.compile(dialect=dialect))


def violations(found: Iterable[tuple[str, Statement]] | None = None) -> Iterator[str]:
    for name, statement in statements() if found is None else found:
        texts = [_sql(statement, dialect) for dialect in (dialects.SQLITE, dialects.postgresql())]
        if any(map(_NESTED.search, texts)):
            yield f"{name}: a join within an outer join: join one table after the other"
        if named := {each for text in texts for each in clashes(text)}:
            yield (
                f"{name}: a subquery names {', '.join(sorted(named))}, as a query around it does: correlate it, "
                "or alias it where all rows are meant"
            )
