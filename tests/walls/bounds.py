"""What answers may reveal about B, depending on the caller: the words in its texts, its IDs and its numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.identity.model import Credential
from tests.walls.dump import FIRST_NUMBER, Key, Row
from tests.walls.owners import rows_of

if TYPE_CHECKING:
    from tests.walls.world import Walls

OPEN, SHUT = "zqbopen", "zqbshut"
"""Marker words in texts visible to B's people, and in those visible only to owners or in the private project."""

_SEEN = {"accounts", "memberships", "services", "service_prices", "installations"}
_WORDS = re.compile(r"zqb(?:open|shut)|[a-z]{2,4}_[0-9a-hjkmnp-tv-z]{26}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NUMBER = re.compile(r"(?<![0-9a-zA-Z_])1[3-6][0-9]{8}(?![0-9a-zA-Z])")
_COLUMNS = ("id", "guid", "repository_id")
PEOPLE = ("owner", "member", "client")  # people of A who also have a role in B


class Bounds:
    """A snapshot of B's names, taken on creation."""

    def __init__(self, walls: Walls) -> None:
        self._beyond = walls.beyond
        self._logins = {self._beyond.world.organization, self._beyond.bea.login}
        self._open = {OPEN} | self._logins
        self._shut = {SHUT}
        shared = {str(walls.beyond.both.id)}  # also a person of A
        for table, rows in rows_of(walls.reader.dump(), walls.accounts).items():
            for key, row in rows.items():
                (self._open if self._is_open(table, row) else self._shut).update(_names(table, key, row))
        self._open -= shared
        self._shut -= self._open | shared

    def _is_open(self, table: str, row: Row) -> bool:
        return table in _SEEN or (row.get("repository_id") == self._beyond.repository_id and table != "hooks")

    def hidden_in(self, text: str, by: Credential) -> set[str]:
        level = "shut" if by.caller in PEOPLE and by.kind in ("classic", "oauth", "app_user") else "all"
        if by.kind == "app" and not by.other:  # the app installed in both organizations
            level = "shut"
        hidden = self._shut if level == "shut" else self._shut | self._open
        logins = {each for each in self._logins & hidden if each in text}
        return {*_WORDS.findall(text), *_NUMBER.findall(text)} & hidden | logins


def _names(table: str, key: Key, row: Row) -> set[str]:
    """Return the numbers and GUIDs that identify the row."""
    found = {str(row[name]) for name in _COLUMNS if row.get(name) is not None}
    return {each for each in found if not each.isdecimal() or int(each) >= FIRST_NUMBER}
