"""Who of another service is who here. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workhook.identity.queries import key_of
from workhook.identity.schemas import Account
from workhook.work.imports.trello import Member


class People:
    """Members of the organization by their logins, and by the names that the caller gave them."""

    def __init__(self, members: Iterable[Account], named: Mapping[str, str]) -> None:
        """`named`: login by user name, full name or id in the other service. Raises `KeyError` with a login that is
        no member's."""
        by_login = {key_of(each.login): each for each in members}
        self._by_login = by_login
        self._named = {_key(name): _member(by_login, login) for name, login in named.items()}
        self._known: dict[Member, Account | None] = {}

    def find(self, member: Member) -> Account | None:
        """By what the caller said of any name, else by the user name."""
        if member not in self._known:
            self._known[member] = self._look_for(member)
        return self._known[member]

    def _look_for(self, member: Member) -> Account | None:
        names = (_key(each) for each in (member.username, member.full_name, member.id) if each.strip())
        named = next((self._named[each] for each in names if each in self._named), None)
        return named or self._by_login.get(_key(member.username))


def _member(by_login: Mapping[str, Account], login: str) -> Account:
    if key_of(login) not in by_login:
        raise KeyError(login)
    return by_login[key_of(login)]


def _key(name: str) -> str:
    return name.strip().casefold()
