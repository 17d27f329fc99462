"""Ways for a person to lose rights in a studio's organization or repository."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.harness.world import must
from tests.work.studio import Caller, Studio
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.context import Write
from workhook.identity.schemas import Account, Repository
from workhook.storage import Transaction
from workhook.work.people import membership

BASE = "http://work.example.com"


Change = Callable[[Transaction, Account, Repository, Account], Any]
"""A change, called with the transaction, the organization, the repository and the person."""


def change_by_hand(studio: Studio, caller: Caller | str, change: Change) -> None:
    """Apply a change as the command line does. `caller` may be a login for persons without a valid token."""
    login = caller if isinstance(caller, str) else caller.login

    async def run(services: Services) -> None:
        async with services.database.transaction() as tx:
            repository = must(await queries.find_repository(tx, studio.world.organization, studio.world.repository))
            person = must(await queries.find_account(tx, login))
            await change(tx, repository.owner, repository, person)

    studio.server.run(run)


def disable(studio: Studio, caller: Caller | str) -> None:
    change_by_hand(studio, caller, lambda tx, _, __, who: actions.disable(tx, who, base=BASE))


def enable(studio: Studio, login: str) -> None:
    change_by_hand(studio, login, lambda tx, _, __, who: actions.enable(tx, who))


def remove_member(studio: Studio, caller: Caller) -> None:
    change_by_hand(
        studio, caller, lambda tx, place, _, who: membership.remove_member(Write(tx, None, BASE), place, who)
    )


def make_member(studio: Studio, caller: Caller) -> None:
    change_by_hand(
        studio, caller, lambda tx, place, _, who: membership.set_member(Write(tx, None, BASE), place, who, "member")
    )


def remove_collaborator(studio: Studio, caller: Caller) -> None:
    studio.owner.delete(f"{studio.project}/members/{caller.get('/me')['user']['username']}")


def make_reader(studio: Studio, caller: Caller) -> None:
    change_by_hand(
        studio,
        caller,
        lambda tx, _, place, who: membership.set_collaborator(Write(tx, None, BASE), place, who, "read"),
    )


def remove_client(studio: Studio, caller: Caller) -> None:
    name = caller.login
    for each in studio.owner.get(f"{studio.project}/clients")["clients"]:
        if each["username"] == name:
            studio.owner.delete(f"/clients/{each['id']}")
