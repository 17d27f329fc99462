"""Display names of people, with logins where two share a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from workhook.storage import Reader
from workhook.work.board.tasks.assignees import list_people, list_team
from workhook.work.kernel.access import Access


def called(person: Any) -> str:
    """Return the name of a person, organization or client, or the login without one."""
    name = person.get("name") if isinstance(person, dict) else getattr(person, "name", None)
    return str(name or login_of(person))


def login_of(person: Any) -> str:
    """Return the login of any representation of a person; a string is a login itself."""
    if isinstance(person, str):
        return person
    if isinstance(person, dict):
        return str(person["login"])
    return str(person.login if hasattr(person, "login") else person.username)


def tint(person: Any) -> int:
    """Return a person's hue, from 0 to 11. Consecutive accounts get different hues."""
    number = getattr(person, "id", None)
    return number * 5 % 12 if isinstance(number, int) else sum(login_of(person).encode()) % 12


class Names:
    """Display names of the people on a page. People who share a name have their logins added."""

    def __init__(self, people: Iterable[Any]) -> None:
        by_login = {login_of(each): called(each) for each in people}
        often = Counter(name.casefold() for name in by_login.values())
        self._shared = {name for name, count in often.items() if count > 1}
        self.by_login = {login: self._name(login, name) for login, name in by_login.items()}

    def __call__(self, person: Any) -> str:
        """Return the name of any person."""
        login, name = login_of(person), called(person)
        if login in self.by_login:
            return self.by_login[login]
        taken = name.casefold() in {each.casefold() for each in self.by_login.values()}
        return f"{name} ({login})" if taken else self._name(login, name)

    def _name(self, login: str, name: str) -> str:
        return f"{name} ({login})" if name.casefold() in self._shared and name != login else name


async def logins_of(reader: Reader, access: Access) -> dict[str, str]:
    """Return the names of assignable people by login, oldest accounts first. Clients see the team and themselves."""
    return Names(await list_people(reader, access)).by_login


async def team_of(reader: Reader, access: Access) -> dict[str, str]:
    """Return `logins_of` without clients, who don't track time."""
    return Names(await list_team(reader, access)).by_login
