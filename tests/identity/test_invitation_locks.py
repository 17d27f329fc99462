"""Inviting, accepting or changing an invitation while a role is revoked.

No orphaned invitation remains, nobody joins by an ended one, and no caller gets a database error.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from tests.harness.concurrent_transactions import Beside
from tests.harness.world import make_world
from workhook.chores import CHORES, run_once
from workhook.core.clock import DAY_MS, now_ms
from workhook.core.errors import Forbidden, NotFound
from workhook.http.calls import Services
from workhook.identity import actions, invitations, queries
from workhook.identity.context import Write
from workhook.identity.invitations import Invitation
from workhook.identity.schemas import Account, Actor, Repository
from workhook.identity.tables import invitations as table
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into
from workhook.storage.pages import Page
from workhook.work.people.invitations import links, organization, repository

BASE = "http://h.example"


@dataclass
class Site:
    """`inviter` is one of two owners and an admin of the project; `guest` belongs to neither."""

    services: Services
    place: Account
    here: Repository
    owner: Account
    inviter: Account
    guest: Actor

    async def invite(self, tx: Transaction, where: Account | Repository, role: str = "member") -> Invitation:
        return await invitations.invite(tx, where, self.inviter, role, invitee=self.guest.user, strangers="admins")

    async def step_down(self, tx: Transaction) -> None:
        await actions.set_member(tx, self.place, self.inviter, "member")

    async def lower(self, tx: Transaction) -> None:
        await actions.set_collaborator(tx, self.here, self.inviter, "write")

    async def join(self, tx: Transaction) -> None:
        await organization.join(Write(tx, self.guest, BASE), self.place.login)

    async def join_project(self, tx: Transaction) -> None:
        found, _ = await invitations.list_for(tx, self.guest.user, Repository, Page(1))
        if not found:
            raise NotFound()
        await repository.join(Write(tx, self.guest, BASE), found[0])

    async def left(self) -> list[int]:
        return [row["id"] for row in await self.services.database.fetch_all(sa.select(table.c.id))]

    async def role(self) -> str | None:
        return await queries.find_member_role(self.services.database, self.place.id, self.guest.user.id)

    async def role_here(self) -> str | None:
        found = await queries.find_repository_by_id(self.services.database, self.here.id, self.guest.user.id)
        return found.role if found else None


@pytest.fixture
async def site(services: Services) -> Site:
    world = await make_world(services)
    here = await queries.find_repository(services.database, world.organization, world.repository)
    owner = await queries.find_account(services.database, world.owner)
    assert here is not None
    assert owner is not None
    async with services.database.transaction() as tx:
        inviter = await actions.create_account(tx, "user", f"inviter-{here.id}", name=None, email="inviter@example.com")
        guest = await actions.create_account(tx, "user", f"guest-{here.id}", name=None, email="guest@example.com")
        await actions.set_member(tx, here.owner, inviter, "owner")
    actor = Actor(guest, token_id=0, token_kind="classic", scopes=frozenset())
    return Site(services, here.owner, here, owner, inviter, actor)


async def _as_admin(site: Site) -> None:
    """Leave the inviter only the right to invite to the project."""
    async with site.services.database.transaction() as tx:
        await actions.set_member(tx, site.place, site.inviter, "member")
        await actions.set_collaborator(tx, site.here, site.inviter, "admin")


async def test_an_owner_demoted_while_inviting_leaves_no_invitation(site: Site, beside: Beside) -> None:
    async with site.services.database.transaction() as tx:
        await site.invite(tx, site.place)
        await site.invite(tx, site.here, "write")
        going = await beside.begin(site.step_down)
    await going
    assert await site.left() == []


async def test_an_owner_demoted_before_inviting_is_refused(site: Site, beside: Beside) -> None:
    async with site.services.database.transaction() as tx:
        await site.step_down(tx)
        inviting = await beside.begin(lambda other: site.invite(other, site.place))
    with pytest.raises(Forbidden):
        await inviting
    assert await site.left() == []


async def test_an_admin_demoted_while_inviting_leaves_no_invitation(site: Site, beside: Beside) -> None:
    await _as_admin(site)
    async with site.services.database.transaction() as tx:
        await site.invite(tx, site.here, "write")
        going = await beside.begin(site.lower)
    await going
    assert await site.left() == []
    async with site.services.database.transaction() as tx:
        with pytest.raises(Forbidden):
            await site.invite(tx, site.here, "write")


async def test_losing_both_roles_concurrently_leaves_no_invitation(site: Site, beside: Beside) -> None:
    """Losing only one of the roles would keep the invitation."""
    async with site.services.database.transaction() as tx:
        await actions.set_collaborator(tx, site.here, site.inviter, "admin")
        await site.invite(tx, site.here, "write")
    async with site.services.database.transaction() as tx:
        await site.step_down(tx)
        lowering = await beside.begin(site.lower)
    await lowering
    assert await site.left() == []


async def test_accepting_fails_while_the_inviter_is_demoted(site: Site, beside: Beside) -> None:
    async with site.services.database.transaction() as tx:
        await site.invite(tx, site.place, "owner")
    async with site.services.database.transaction() as tx:
        await site.step_down(tx)
        joining = await beside.begin(site.join)
    await joining
    assert (await site.role(), await site.left()) == (None, [])


async def test_accepting_waits_while_the_inviter_is_about_to_be_demoted(site: Site, beside: Beside) -> None:
    """Both transactions lock the owners first; otherwise they would deadlock."""
    async with site.services.database.transaction() as tx:
        await site.invite(tx, site.place)
    async with site.services.database.transaction() as tx:
        await actions.lock_owners(tx, site.place)
        joining = await beside.begin(site.join)
        await site.step_down(tx)
    await joining
    assert (await site.role(), await site.left()) == (None, [])


async def test_accepting_succeeds_before_the_inviter_is_demoted(site: Site, beside: Beside) -> None:
    async with site.services.database.transaction() as tx:
        await site.invite(tx, site.place)
        await site.invite(tx, site.here, "write")
    async with site.services.database.transaction() as tx:
        await site.join(tx)
        going = await beside.begin(site.step_down)
    await going
    assert (await site.role(), await site.left()) == ("member", [])


@pytest.mark.parametrize("first", ["accepts", "goes"])
async def test_accepting_a_project_invitation_while_the_inviter_is_demoted(
    site: Site, beside: Beside, first: str
) -> None:
    await _as_admin(site)
    async with site.services.database.transaction() as tx:
        await site.invite(tx, site.here, "write")
    works = (site.join_project, site.lower) if first == "accepts" else (site.lower, site.join_project)
    async with site.services.database.transaction() as tx:
        await works[0](tx)
        second = await beside.begin(works[1])
    if first == "accepts":
        await second
    else:
        with pytest.raises(NotFound):
            await second
    assert (await site.role_here(), await site.left()) == ("write" if first == "accepts" else None, [])


async def test_accepting_while_the_role_changes_grants_the_new_role(site: Site, beside: Beside) -> None:
    async with site.services.database.transaction() as tx:
        made = await site.invite(tx, site.here, "admin")
    async with site.services.database.transaction() as tx:
        assert await invitations.change_role(tx, made, "read") is not None
        joining = await beside.begin(site.join_project)
    await joining
    assert await site.role_here() == "read"
    async with site.services.database.transaction() as tx:
        assert await invitations.change_role(tx, made, "write") is None


@pytest.mark.parametrize("second", ["join", "join_project"])
async def test_concurrent_acceptances_take_effect_once(site: Site, beside: Beside, second: str) -> None:
    async with site.services.database.transaction() as tx:
        await site.invite(tx, site.place)
        await site.invite(tx, site.here, "write")
    async with site.services.database.transaction() as tx:
        await getattr(site, second)(tx)
        joining = await beside.begin(getattr(site, second))
    if second == "join":
        await joining
        assert await site.role() == "member"
    else:
        with pytest.raises(NotFound):
            await joining
        assert await site.role_here() == "write"
    assert len(await site.left()) == 1


async def _linked(site: Site, where: Account | Repository, role: str) -> tuple[Invitation, str]:
    """Return an invitation by address and the secret of its link."""
    async with site.services.database.transaction() as tx:
        made = await invitations.invite(tx, where, site.inviter, role, email="guest@example.com", strangers="admins")
        return made, (await invitations.create_link(tx, made)).path.rpartition("/")[2]


@pytest.mark.parametrize("role", ["owner", "admin", "client"])
async def test_concurrent_acceptances_by_one_link_admit_one_user(site: Site, beside: Beside, role: str) -> None:
    _, secret = await _linked(site, site.place if role == "owner" else site.here, role)
    async with site.services.database.transaction() as tx:
        other = await actions.create_account(tx, "user", f"other-{site.here.id}", name=None, email=None)

    async def accept(tx: Transaction, user: Account) -> None:
        await links.accept(Write(tx, Actor(user, 0, "session", frozenset()), BASE), secret)

    async with site.services.database.transaction() as tx:
        await accept(tx, site.guest.user)
        accepting = await beside.begin(lambda second: accept(second, other))
    with pytest.raises(NotFound) as refused:
        await accepting
    assert refused.value.message == links.GONE
    assert await site.left() == []


@pytest.mark.parametrize("ends", ["another link", "another role", "withdrawn", "inviter demoted"])
async def test_accepting_by_a_link_that_ends_meanwhile_fails(site: Site, beside: Beside, ends: str) -> None:
    await _as_admin(site)
    made, secret = await _linked(site, site.here, "read")
    async with site.services.database.transaction() as tx:
        if ends == "another link":
            await invitations.create_link(tx, made)
        elif ends == "another role":
            assert await invitations.change_role(tx, made, "admin") is not None
        elif ends == "withdrawn":
            assert await invitations.delete(tx, made)
        else:
            await site.lower(tx)
        accepting = await beside.begin(lambda other: links.accept(Write(other, site.guest, BASE), secret))
    with pytest.raises(NotFound):
        await accepting
    assert await site.role_here() is None


async def test_expired_invitations_are_deleted_after_a_day_in_batches(site: Site) -> None:
    """Valid invitations and those that expired less than a day ago remain."""
    now = now_ms()
    common = {
        "account_id": site.place.id, "inviter_id": site.owner.id, "role": "member", "place": f"o{site.place.id}",
        "created_at": 0,
    }  # fmt: skip
    ends = {"over": now - DAY_MS - 1, "just": now - DAY_MS + 60_000, "holds": now + DAY_MS}
    rows = [
        {**common, "email": f"{name}{number}@example.com", "invitee": f"e{name}{number}@example.com", "expires_at": end}
        for name, end in ends.items()
        for number in range(1200 if name == "over" else 1)
    ]
    async with site.services.database.transaction() as tx:
        await tx.execute_many(insert_into(table, *rows[0]), rows)
    [chore] = [each for each in CHORES if each.name == "tokens_and_sessions"]
    assert await run_once(site.services, chore, now) == 1200
    found = await site.services.database.fetch_all(sa.select(table.c.email).order_by(table.c.email))
    assert [row["email"] for row in found] == ["holds0@example.com", "just0@example.com"]
    assert await run_once(site.services, chore, now) == 0
