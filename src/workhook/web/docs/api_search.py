"""The operations of the API, as the search in the documentation finds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from workhook.http.operations import Operation, is_for_programs

HITS_MAX = 20

_known: list[Operation] = []


class OperationHit(NamedTuple):
    """`name`: the fragment of `/docs` that opens it. `path`: with the prefix of its area."""

    name: str
    method: str
    path: str
    summary: str


def know(operations: Sequence[Operation]) -> None:
    """Tell what there is: those for programs are found from now on."""
    _known[:] = [each for each in operations if is_for_programs(each.area)]


def search(words: str) -> list[OperationHit]:
    """The operations that have all words in their method, path, name or summary, or else most of them."""
    wanted = dict.fromkeys(words.lower().split())
    counted = [(sum(word in _text(each) for word in wanted), each) for each in _known]
    most = max((count for count, _ in counted), default=0)
    if not most or most * 2 < len(wanted):
        return []
    found = [each for count, each in counted if count == most][:HITS_MAX]
    return [OperationHit(each.name, each.method, each.area.prefixes[0] + each.path, each.summary) for each in found]


def _text(each: Operation) -> str:
    return f"{each.method} {each.area.prefixes[0]}{each.path} {each.name} {each.tag} {each.summary}".lower()
