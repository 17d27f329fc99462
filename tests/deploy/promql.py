"""A partial parser of PromQL, sufficient to compare the names in expressions with a server's metrics."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<text>"[^"]*"|'[^']*')|(?P<range>\[[^\]]*\])|(?P<number>\d[\w.]*)|(?P<word>[a-zA-Z_:$][\w:]*)
    |(?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^=<>(){},])|(?P<space>\s+)""",
    re.VERBOSE,
)
_LISTS = {"by", "without", "on", "ignoring", "group_left", "group_right"}  # labels in parentheses follow these
_WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}
_AGGREGATIONS = {"sum", "min", "max", "avg", "count", "topk", "bottomk", "quantile", "stddev", "group"}


@dataclass
class Used:
    """The names used in an expression."""

    metrics: set[str] = field(default_factory=set)
    matchers: list[tuple[str, str, str, str]] = field(default_factory=list)  # metric, label, operator, value
    listed: set[str] = field(default_factory=set)  # labels after `by` and similar keywords


def read(expression: str) -> Used:
    """Return the names in an expression. Raise `ValueError` for PromQL that this parser does not support."""
    tokens, at = [], 0
    while at < len(expression):
        found = _TOKEN.match(expression, at)
        if found is None:
            raise ValueError(f"{expression[at:]!r} in {expression!r}")
        if found.lastgroup not in ("space", "range", "number"):
            tokens.append((str(found.lastgroup), found.group()))
        at = found.end()
    return _names([*tokens, ("end", "")])


def _names(tokens: list[tuple[str, str]]) -> Used:
    used, at = Used(), 0
    while tokens[at][0] != "end":
        kind, word = tokens[at]
        follows = tokens[at + 1][1]
        at += 1
        if kind != "word" or word in _WORDS or (follows == "(" and word not in _LISTS):
            continue
        if word in _LISTS:
            inside, at = _until(tokens, at + 1, ")")
            used.listed |= {text for _, text in inside if text != ","}
        elif word not in _AGGREGATIONS:
            used.metrics.add(word)
            if follows == "{":
                inside, at = _until(tokens, at + 1, "}")
                for start in range(0, len(inside), 4):  # label, operator, value, comma
                    (_, label), (_, operator), (_, value) = inside[start : start + 3]
                    used.matchers.append((word, label, operator, value[1:-1]))
    return used


def _until(tokens: list[tuple[str, str]], at: int, end: str) -> tuple[list[tuple[str, str]], int]:
    """Return the tokens before the sign `end`, and the position after it."""
    close = next(place for place in range(at, len(tokens)) if tokens[place][1] == end)
    return tokens[at:close], close + 1
