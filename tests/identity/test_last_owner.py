"""An organization keeps an owner, also where two of them go at the same moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.harness.beside import Beside
from tests.harness.world import make_world
from workhook.core.errors import Invalid
from workhook.http.calls import Services
from workhook.identity import actions, queries, removal
from workhook.identity.removal import Loss
from workhook.identity.schemas import Account
from workhook.storage import Transaction

Goes = Callable[[Transaction, Account, Account], Awaitable[object]]


async def _leave(tx: Transaction, place: Account, owner: Account) -> object:
    return await actions.remove_member(tx, place, owner)


async def _step_down(tx: Transaction, place: Account, owner: Account) -> object:
    await actions.set_member(tx, place, owner, "member")
    return None


@pytest.mark.parametrize("second_goes", [_leave, _step_down])
@pytest.mark.parametrize("first_goes", [_leave, _step_down])
async def test_of_two_owners_who_go_at_once_one_stays(
    services: Services, beside: Beside, first_goes: Goes, second_goes: Goes
) -> None:
    world = await make_world(services)
    place, first = [await queries.find_account(services.database, each) for each in (world.organization, world.owner)]
    assert place is not None
    assert first is not None
    async with services.database.transaction() as tx:
        second = await actions.create_account(tx, "user", f"second-{place.id}", name=None, email=None)
        await actions.set_member(tx, place, second, "owner")
    async with services.database.transaction() as tx:
        await first_goes(tx, place, first)
        going = await beside.begin(lambda other: second_goes(other, place, second))
    with pytest.raises(Invalid) as refused:
        await going
    assert "last owner" in str(refused.value.faults[0].message)
    assert await queries.find_member_role(services.database, place.id, second.id) == "owner"
    assert await queries.find_member_role(services.database, place.id, first.id) != "owner"


async def test_who_is_made_an_owner_while_being_added_as_a_member_is_less_after_that(
    services: Services, beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two owners add the same person at once. For a moment the person is an owner."""
    world = await make_world(services)
    place = await queries.find_account(services.database, world.organization)
    assert place is not None
    async with services.database.transaction() as tx:
        new = await actions.create_account(tx, "user", f"new-{place.id}", name=None, email=None)
    losses: list[Loss] = []

    async def told(tx: Transaction, loss: Loss) -> None:
        losses.append(loss)

    monkeypatch.setattr(removal, "losses", [told])
    async with services.database.transaction() as tx:
        await actions.set_member(tx, place, new, "owner")
        adding = await beside.begin(lambda other: actions.set_member(other, place, new, "member"))
    await adding
    assert await queries.find_member_role(services.database, place.id, new.id) == "member"
    assert [each.user_id for each in losses] == [new.id]
