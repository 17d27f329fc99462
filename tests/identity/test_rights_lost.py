"""Every loss of access goes through the one function of decision 26, in the same transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.harness.clients import accept_as_client
from tests.harness.concurrent_transactions import Beside
from tests.harness.world import World, make_world
from workhook.core.errors import Invalid
from workhook.core.ids import new_id
from workhook.http.calls import Services
from workhook.identity import actions, queries, removal
from workhook.identity.apps import actions as app_actions
from workhook.identity.apps import installer
from workhook.identity.apps.app_schemas import AppCreate, OauthAppCreate
from workhook.identity.context import Write
from workhook.identity.oauth.grants import allow, revoke_grant
from workhook.identity.removal import Loss
from workhook.identity.schemas import Account, Actor, Repository
from workhook.identity.tokens.issue import CLASSIC, issue
from workhook.identity.tokens.lookup import find_actor
from workhook.storage import Transaction
from workhook.work.board.projects import actions as projects_actions
from workhook.work.board.projects.schemas import ProjectEdit
from workhook.work.kernel.tables import Client
from workhook.work.people import clients, members, membership

BASE = "http://h.example"


class _Scene:
    """An organization with a project, its owner, and a second owner who is also an admin of the project."""

    def __init__(self, tx: Transaction, place: Account, here: Repository, owner: Actor, other: Account) -> None:
        self.tx, self.place, self.here, self.owner, self.other = tx, place, here, owner, other
        self.losses: list[Loss] = []

    @classmethod
    async def make(cls, tx: Transaction, world: World) -> _Scene:
        place, owner = [await queries.find_account(tx, each) for each in (world.organization, world.owner)]
        assert place is not None
        assert owner is not None
        other = await actions.create_account(tx, "user", f"other-{place.id}", name=None, email=None)
        await actions.set_member(tx, place, other, "owner")
        here = await queries.find_repository(tx, world.organization, world.repository, owner.id)
        assert here is not None
        await actions.set_collaborator(tx, here, other, "admin")
        token = await issue(tx, CLASSIC, owner.id, scopes=("repo", "work"))
        actor = await find_actor(tx, token.token)
        assert actor is not None
        return cls(tx, place, here, actor, other)

    async def told(self, tx: Transaction, loss: Loss) -> None:
        assert tx is self.tx
        self.losses.append(loss)

    def loss(self, *, by_owner: bool = True, everywhere: bool = False, **more: Any) -> Loss:
        given = {"repository_id": None, "user_id": self.other.id, "app_id": None, **more}
        actor = self.owner if by_owner else None
        return Loss(account_id=None if everywhere else self.place.id, actor=actor, base=BASE, **given)

    async def client(self) -> Client:
        return await accept_as_client(self.tx, self.here.project_id, "client@elsewhere.example", BASE)


@pytest.fixture
async def scene(services: Services, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[_Scene]:
    world = await make_world(services)
    async with services.database.transaction() as tx:
        made = await _Scene.make(tx, world)
        monkeypatch.setattr(removal, "losses", [made.told])
        monkeypatch.setattr(removal, "_links", {"base": BASE})
        yield made


async def test_removing_or_demoting_a_member_is_a_loss(scene: _Scene) -> None:
    await membership.set_member(Write(scene.tx, None, BASE), scene.place, scene.other, "member")
    assert scene.losses == [scene.loss(by_owner=False)]
    assert await membership.remove_member(Write(scene.tx, None, BASE), scene.place, scene.other)
    assert scene.losses == [scene.loss(by_owner=False)] * 2
    assert not await membership.remove_member(Write(scene.tx, None, BASE), scene.place, scene.other)
    await membership.set_member(Write(scene.tx, None, BASE), scene.place, scene.other, "owner")
    assert len(scene.losses) == 2


async def test_adding_or_keeping_a_member_is_not_a_loss(scene: _Scene) -> None:
    """Nothing that could have ended is searched for, either."""
    new = await actions.create_account(scene.tx, "user", f"new-{scene.place.id}", name=None, email=None)
    for role in ("member", "member", "owner", "owner"):
        await membership.set_member(Write(scene.tx, None, BASE), scene.place, new, role)
        assert await queries.find_member_role(scene.tx, scene.place.id, new.id) == role
    assert scene.losses == []
    await membership.set_member(Write(scene.tx, None, BASE), scene.place, new, "member")
    assert scene.losses == [scene.loss(by_owner=False, user_id=new.id)]


async def test_removing_or_demoting_a_collaborator_is_a_loss(scene: _Scene) -> None:
    here = scene.here
    await membership.set_collaborator(Write(scene.tx, None, BASE), here, scene.other, "write")
    assert scene.losses.pop() == scene.loss(by_owner=False, repository_id=here.id)
    assert await membership.remove_collaborator(Write(scene.tx, None, BASE), here, scene.other)
    assert scene.losses.pop() == scene.loss(by_owner=False, repository_id=here.id)
    await membership.set_collaborator(Write(scene.tx, None, BASE), here, scene.other, "admin")
    assert not scene.losses
    await members.remove_member(Write(scene.tx, scene.owner, BASE), here.project_id, scene.other.login)
    assert scene.losses == [scene.loss(repository_id=here.id)]


async def test_removing_a_client_is_a_loss(scene: _Scene) -> None:
    client = await scene.client()
    await clients.remove_client(Write(scene.tx, scene.owner, BASE), client.id)
    assert scene.losses == [scene.loss(repository_id=scene.here.id, user_id=client.user_id)]


async def test_making_a_project_private_is_a_loss(scene: _Scene) -> None:
    for private in (True, True, False):
        write = Write(scene.tx, scene.owner, BASE)
        await projects_actions.edit_project(write, scene.here.project_id, ProjectEdit(private=private))
    assert scene.losses == [scene.loss(repository_id=scene.here.id, user_id=None)]


async def test_disabling_a_user_is_a_loss(scene: _Scene) -> None:
    for _ in range(2):
        await actions.disable(scene.tx, scene.other, base=BASE)
    await actions.enable(scene.tx, scene.other)
    assert scene.losses == [scene.loss(by_owner=False, everywhere=True)]


async def test_revoking_a_consent_is_a_loss(scene: _Scene) -> None:
    app, _, _ = await app_actions.create_app(
        scene.tx,
        None,
        scene.place,
        OauthAppCreate(name=f"Viewer {scene.place.id}", callback_urls=["https://app.example.com/"]),
    )
    await allow(scene.tx, app, scene.other.id, frozenset({"work"}))
    assert await revoke_grant(scene.tx, app.id, scene.other.id)
    assert scene.losses.pop() == scene.loss(by_owner=False, everywhere=True, app_id=app.id)
    await app_actions.revoke_tokens(scene.tx, scene.owner, app)
    assert scene.losses == [scene.loss(everywhere=True, user_id=None, app_id=app.id)]


async def test_narrowing_or_uninstalling_an_app_is_a_loss(scene: _Scene) -> None:
    name = f"Robot {new_id('x')[2:10]}"
    app, _, _ = await app_actions.create_app(
        scene.tx, None, scene.place, AppCreate(name=name, permissions={"work": "write"})
    )
    there = await installer.install(scene.tx, None, app, scene.place)
    less = scene.loss(user_id=app.bot_id)
    await installer.edit_installation(scene.tx, scene.owner, there, repository_ids=[scene.here.id])
    await installer.suspend(scene.tx, scene.owner, there)
    await installer.unsuspend(scene.tx, scene.owner, there)
    await installer.uninstall(scene.tx, scene.owner, there)
    assert scene.losses == [less] * 3


# --- the last owner --------------------------------------------------------------------------------------------------
# An organization always keeps an owner, even if two leave concurrently.


Goes = Callable[[Transaction, Account, Account], Awaitable[object]]


async def _leave(tx: Transaction, place: Account, owner: Account) -> object:
    return await actions.remove_member(tx, place, owner)


async def _step_down(tx: Transaction, place: Account, owner: Account) -> object:
    await actions.set_member(tx, place, owner, "member")
    return None


@pytest.mark.parametrize("second_goes", [_leave, _step_down])
@pytest.mark.parametrize("first_goes", [_leave, _step_down])
async def test_one_of_two_owners_who_go_concurrently_remains(
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


async def test_adding_a_member_who_was_concurrently_made_an_owner_is_a_loss(
    services: Services, beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two owners add the same user concurrently, who is an owner for a moment."""
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
