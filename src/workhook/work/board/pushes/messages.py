"""Which tasks the messages of a push close, as in `Closes #12`. Pure.

What a publisher sends is read as it is: anything may be missing, or of another type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

MESSAGE_CHARS = 20_000
COMMITS_MAX = 2_000
ID_CHARS = 64
CLOSED_MAX = 100
"""A push closes so many tasks at most, the first."""

_NUMBER = r"(?:(?P<{0}>[\w.-]{{1,100}}/[\w.-]{{1,100}}))?#(?P<{1}>[1-9]\d{{0,8}})(?![\w-])"
_FIRST = re.compile(
    r"(?<![\w-])(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)(?:\s*+:\s*+|\s++)" + _NUMBER.format("place", "number"),
    re.IGNORECASE,
)
_NEXT = re.compile(r"(?:\s*+[,&]\s*+(?:and\s++)?|\s++and\s++|\s++)" + _NUMBER.format("place", "number"), re.IGNORECASE)


class PushedCommit(msgspec.Struct, frozen=True):
    """A commit of a push."""

    id: str
    message: str

    @property
    def title(self) -> str:
        """The first line of the message, shortened."""
        return self.message.strip().partition("\n")[0].strip()[:200]


def closed_in(message: str, full_name: str) -> list[int]:
    """The numbers of tasks that the message closes, each once, in their order. `full_name`: of the project; what is
    said of others is left out."""
    found: dict[int, None] = {}
    text = message[:MESSAGE_CHARS]
    for first in _FIRST.finditer(text):
        match: re.Match[str] | None = first
        while match is not None:
            if (match["place"] or full_name).casefold() == full_name.casefold():
                found.setdefault(int(match["number"]))
            match = _NEXT.match(text, match.end())
    return list(found)


def is_of_default_branch(payload: Mapping[str, Any]) -> bool:
    """Where the payload does not name the default branch, it is `main`, as in Workhook's own records."""
    repository = payload.get("repository")
    branch = repository.get("default_branch") if isinstance(repository, dict) else None
    return payload.get("ref") == f"refs/heads/{branch if isinstance(branch, str) and branch else 'main'}"


def commits_of(payload: Mapping[str, Any]) -> Iterator[PushedCommit]:
    """Those that were pushed, each once; the head, too, where it is not among them."""
    commits = payload.get("commits")
    listed = commits[:COMMITS_MAX] if isinstance(commits, list) else []
    seen = set()
    for each in (*listed, payload.get("head_commit")):
        commit = _commit(each)
        if commit is not None and commit.id not in seen:
            seen.add(commit.id)
            yield commit


def _commit(raw: object) -> PushedCommit | None:
    if not isinstance(raw, dict):
        return None
    number, message = raw.get("id"), raw.get("message")
    if not isinstance(number, str) or not isinstance(message, str) or not 1 <= len(number) <= ID_CHARS:
        return None
    return None if "\0" in number + message else PushedCommit(number, message)


def closed_by_push(payload: Mapping[str, Any], full_name: str) -> list[tuple[int, PushedCommit]]:
    """The numbers of tasks that a push closes, each with the first of its commits that does so."""
    if not is_of_default_branch(payload):
        return []
    found: dict[tuple[int, str], tuple[int, PushedCommit]] = {}
    for commit in commits_of(payload):
        for number in closed_in(commit.message, full_name):
            found.setdefault((number, commit.id), (number, commit))
    return list(found.values())[:CLOSED_MAX]
