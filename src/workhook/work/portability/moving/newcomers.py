"""The people of an export, on the server that it comes to.

Who is somebody here already is said by whoever imports: the same login may be another person. Everybody else gets an
account that is disabled: it keeps a name, what was done with it and its places, and nobody can sign in with it until
`workhook user enable`. It has no address, because an address in a file proves nothing. Who had no account any more,
and the bots of apps, become former accounts for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from workhook.core.clock import now_ms
from workhook.core.errors import Conflict
from workhook.core.ids import slug
from workhook.identity import actions
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account
from workhook.identity.tables import accounts
from workhook.storage import Reader, Transaction
from workhook.storage.metadata import insert_into
from workhook.work.portability.moving.manifest import MovedPerson

_LOGIN_MAX_CHARS = 39
_LOGINS_TRIED_MAX = 1_000
_FORMER = "former"
_insert = insert_into(
    accounts, "kind", "login", "login_key", "name", "email", "avatar", "created_at", "updated_at", "disabled_at"
).returning(accounts.c.id)


class Newcomer(msgspec.Struct, frozen=True):
    """`was`: the login on the other server. `kind`: user, who can be let in, or former, who cannot."""

    was: str
    login: str
    kind: str


async def name_people(
    reader: Reader, people: Iterable[MovedPerson], matched: Mapping[str, Account]
) -> list[tuple[MovedPerson, Newcomer]]:
    """What those who are nobody here will be called: as there, or with a number behind it where that is taken."""
    taken: set[str] = set()
    found = []
    for each in people:
        if each.login not in matched:
            login = await _free_login(reader, each, taken)
            taken.add(key_of(login))
            found.append((each, Newcomer(each.login, login, "user" if each.kind == "user" else _FORMER)))
    return found


async def _free_login(reader: Reader, person: MovedPerson, taken: set[str]) -> str:
    base = person.login if person.kind == "user" else slug(person.login, _LOGIN_MAX_CHARS - 5, otherwise=_FORMER)
    login = base
    for number in range(2, _LOGINS_TRIED_MAX):
        if key_of(login) not in taken and not await actions.faults_of_login(reader, login):
            return login
        ending = f"-{number}"
        login = f"{slug(base, _LOGIN_MAX_CHARS - len(ending), otherwise=_FORMER)}{ending}"
    raise Conflict(f"No login like {base} is free here.", code="logins_taken")


async def add_people(
    tx: Transaction, people: Iterable[MovedPerson], matched: Mapping[str, Account]
) -> tuple[dict[str, int], list[Newcomer]]:
    """Ids by their logins there, and who is new."""
    now = now_ms()
    ids = {old: account.id for old, account in matched.items()}
    named = await name_people(tx, people, matched)
    for person, each in named:
        values = {"kind": each.kind, "login": each.login, "login_key": key_of(each.login), "name": person.name}
        fixed = {"email": None, "avatar": None, "created_at": now, "updated_at": now, "disabled_at": now}
        row = await tx.fetch_one(_insert, {**values, **fixed})
        assert row is not None, "it was inserted"
        ids[person.login] = row["id"]
    return ids, [each for _, each in named]
