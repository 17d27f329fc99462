"""Disabling and enabling users: which access ends, which returns, and which owners must remain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from tests.harness.concurrent_transactions import Beside
from tests.harness.world import make_world
from workhook.core.errors import Invalid
from workhook.http.calls import Services
from workhook.identity import actions, invitations, queries
from workhook.identity.actions import LastOwner
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account
from workhook.identity.signin import identities, sessions
from workhook.identity.signin.oidc import Claims, SignInRefused
from workhook.identity.signin.passwords import check_password, new_hash, set_password
from workhook.identity.tables import audit_log
from workhook.identity.tokens.issue import CLASSIC, issue
from workhook.identity.tokens.lookup import find_actor, find_actors
from workhook.storage import Transaction
from workhook.storage.pages import Page

BASE = "http://h.example"
PASSWORD = "a horse, a battery and a staple"
ISSUER = "https://id.example.com"

_told = sa.select(audit_log.c.action, audit_log.c.target, audit_log.c.account_id).where(
    sa.or_(audit_log.c.action == "user.disable", audit_log.c.action == "user.enable")
)


@dataclass
class Scene:
    """`ada` and `bob` own one organization. `eve` owns another, of which ada is a member."""

    services: Services
    place: Account
    ada: Account
    bob: Account
    other: Account
    eve: Account

    async def disable(self, user: Account) -> actions.Disabled:
        async with self.services.database.transaction() as tx:
            return await actions.disable(tx, user, base=BASE)

    async def enable(self, user: Account) -> bool:
        async with self.services.database.transaction() as tx:
            return await actions.enable(tx, user)


@pytest.fixture
async def scene(services: Services) -> Scene:
    here, there = await make_world(services), await make_world(services)
    async with services.database.transaction() as tx:
        names = (here.organization, here.owner, there.organization, there.owner)
        place, bob, other, eve = [await queries.find_account(tx, each) for each in names]
        assert place and bob and other and eve  # noqa: PT018  # fails if the world is incomplete
        ada = await actions.create_account(
            tx, "user", f"ada-{place.id}", name="Ada", email=f"ada{place.id}@example.com"
        )
        await actions.set_member(tx, place, ada, "owner")
        await actions.set_member(tx, other, ada, "member")
    hashed = await new_hash(PASSWORD, ada)
    async with services.database.transaction() as tx:
        await set_password(tx, ada, hashed)
    return Scene(services, place, ada, bob, other, eve)


async def test_tokens_are_suspended_while_sessions_and_links_end_for_good(scene: Scene) -> None:
    database, ada = scene.services.database, scene.ada
    claims = Claims(ISSUER, "sub-ada")
    async with database.transaction() as tx:
        token = await issue(tx, CLASSIC, ada.id, scopes=("work",))
        others = await issue(tx, CLASSIC, scene.bob.id, scopes=("work",))
        session_id, session = await sessions.start(tx, ada, address=None, user_agent=None)
        link = (await sessions.create_link(tx, ada.id, sessions.SIGN_IN, minutes=5)).path.rpartition("/")[2]
        await identities.link(tx, ada, ISSUER, "sub-ada")

    async def good() -> dict[str, bool]:
        checked = await check_password(database, ada.login, PASSWORD, "198.51.100.9")
        by_address = await check_password(database, ada.email or "", PASSWORD, "198.51.100.9")
        async with database.transaction() as tx:
            try:
                let_in = (await identities.find_or_add(tx, claims, create=True))[0].id == ada.id
            except SignInRefused:
                let_in = False
        return {
            "token": await find_actor(database, token.token) is not None,
            "tokens": token.id in await find_actors(database, [token.id, others.id]),
            "session": await sessions.find(database, session) is not None,
            "form": await sessions.is_alive(database, session_id),
            "link": await sessions.find_link(database, link) is not None,
            "password": checked.right,
            "password by address": by_address.right,
            "provider": let_in,
        }

    assert set((await good()).values()) == {True}
    await scene.disable(ada)
    assert set((await good()).values()) == {False}
    assert await find_actor(database, others.token) is not None
    async with database.transaction() as tx:
        assert not await sessions.use_link(tx, link), "its page was opened before"
    assert await queries.find_member_role(database, scene.place.id, ada.id) == "owner", "places stay"
    await scene.enable(ada)
    again = await good()
    assert {name for name, is_good in again.items() if not is_good} == {"session", "form", "link"}


async def test_a_disabled_user_gets_no_second_account_through_a_provider(scene: Scene) -> None:
    await scene.disable(scene.ada)
    claims = Claims(ISSUER, "sub-new", email=scene.ada.email)
    async with scene.services.database.transaction() as tx:
        with pytest.raises(SignInRefused, match="disabled"):
            await identities.find_or_add(tx, claims, create=True)
        assert await identities.find(tx, claims) is None


async def test_a_session_started_while_the_user_is_disabled_is_never_valid(scene: Scene) -> None:
    """The user may be signing in at that very moment."""
    await scene.disable(scene.ada)
    async with scene.services.database.transaction() as tx:
        _, session = await sessions.start(tx, scene.ada, address=None, user_agent=None)
    assert await sessions.find(scene.services.database, session) is None
    await scene.enable(scene.ada)
    assert await sessions.find(scene.services.database, session) is None


async def test_disabling_and_enabling_are_idempotent(scene: Scene) -> None:
    first = await scene.disable(scene.ada)
    assert first.changed
    assert await scene.disable(scene.ada) == actions.Disabled(first.at, changed=False)
    assert await queries.disabled_at(scene.services.database, scene.ada.id) == first.at
    assert await scene.enable(scene.ada)
    assert not await scene.enable(scene.ada)
    rows = await scene.services.database.fetch_all(_told)
    told = [(row["action"], row["target"], row["account_id"]) for row in rows]
    assert told == [(f"user.{verb}", scene.ada.login, scene.ada.id) for verb in ("disable", "enable")]


async def test_an_invitation_is_invalid_while_its_inviter_is_disabled(scene: Scene) -> None:
    database = scene.services.database
    async with database.transaction() as tx:
        invited = await actions.create_account(tx, "user", f"new-{scene.place.id}", name=None, email=None)
        await invitations.invite(tx, scene.place, scene.ada, "member", invitee=invited)
        await invitations.invite(tx, scene.other, scene.eve, "member", invitee=invited)

    async def holding() -> set[str]:
        found, _ = await invitations.list_for(database, invited, Account, Page(10))
        keys = [key_of(each.login) for each in (scene.place, scene.other)]
        ones = [each for key in keys for each in await invitations.find_to_organization(database, invited, key)]
        assert {each.account.login for each in ones} == {each.account.login for each in found}
        return {each.account.login for each in found}

    assert await holding() == {scene.place.login, scene.other.login}
    await scene.disable(scene.ada)
    assert await holding() == {scene.other.login}
    await scene.enable(scene.ada)
    assert await holding() == {scene.place.login, scene.other.login}


# --- the last owner --------------------------------------------------------------------------------------------------


async def test_the_last_owner_cannot_be_disabled(scene: Scene) -> None:
    with pytest.raises(LastOwner) as refused:
        await scene.disable(scene.eve)
    assert refused.value.organizations == [scene.other.login]
    assert await queries.disabled_at(scene.services.database, scene.eve.id) is None
    await scene.disable(scene.bob)
    with pytest.raises(LastOwner) as refused:
        await scene.disable(scene.ada)
    assert refused.value.organizations == [scene.place.login], "a disabled owner does not count; where she is a member"
    async with scene.services.database.transaction() as tx:
        await actions.set_member(tx, scene.place, scene.eve, "owner")
    assert (await scene.disable(scene.ada)).changed


async def test_the_last_active_owner_cannot_leave_or_step_down(scene: Scene) -> None:
    await scene.disable(scene.ada)
    for goes in (_leave, _step_down):
        with pytest.raises(Invalid) as refused:
            async with scene.services.database.transaction() as tx:
                await goes(tx, scene.place, scene.bob)
        assert refused.value.faults[0].message == (
            f"{scene.bob.login} is the last active owner of {scene.place.login}; make another member an owner first, "
            "or delete the organization"
        )
    async with scene.services.database.transaction() as tx:
        assert await actions.remove_member(tx, scene.place, scene.ada), "who is disabled can be removed"


Goes = Callable[[Transaction, Account, Account], Awaitable[object]]


async def _leave(tx: Transaction, place: Account, owner: Account) -> object:
    return await actions.remove_member(tx, place, owner)


async def _step_down(tx: Transaction, place: Account, owner: Account) -> object:
    await actions.set_member(tx, place, owner, "member")
    return None


async def _be_disabled(tx: Transaction, place: Account, owner: Account) -> object:
    return await actions.disable(tx, owner, base=BASE)


@pytest.mark.parametrize(
    ("first_goes", "second_goes"),
    [(_be_disabled, each) for each in (_leave, _step_down, _be_disabled)]
    + [(each, _be_disabled) for each in (_leave, _step_down)],
)
@pytest.mark.parametrize("ada_first", [True, False])
async def test_one_of_two_owners_who_go_concurrently_remains(
    scene: Scene, beside: Beside, first_goes: Goes, second_goes: Goes, ada_first: bool
) -> None:
    first, second = (scene.ada, scene.bob) if ada_first else (scene.bob, scene.ada)
    async with scene.services.database.transaction() as tx:
        await first_goes(tx, scene.place, first)
        going = await beside.begin(lambda other: second_goes(other, scene.place, second))
    with pytest.raises(Invalid) as refused:
        await going
    assert "last active owner" in str(refused.value.faults[0].message)
    assert await queries.find_member_role(scene.services.database, scene.place.id, second.id) == "owner"
    assert await queries.disabled_at(scene.services.database, second.id) is None
