"""A line of `people.jsonl`: somebody whom other lines name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from workhook.work.portability.moving.values import check_account_name, check_email, check_login, check_name


class MovedPerson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of `people.jsonl`. `email`: of members, which owners see. `kind`: user, bot (of an app), or former."""

    login: str
    name: str | None
    kind: Literal["user", "bot", "former"]
    email: str | None


def faults_of(person: MovedPerson) -> Iterator[tuple[str, str]]:
    """The fields that are wrong, and what is wrong with each. Only users sign in: bots have other logins."""
    login = check_login(person.login) if person.kind == "user" else check_name(person.login)
    name = None if person.name is None else check_account_name(person.name)
    email = None if person.email is None else check_email(person.email)
    yield from ((field, wrong) for field, wrong in (("login", login), ("name", name), ("email", email)) if wrong)
