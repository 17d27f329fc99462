"""An OAuth app's webhook is active only while a user who may manage webhooks there authorizes the app.

Users who authorize it in another organization, or without that right, keep nothing active.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import pytest
import sqlalchemy as sa

from tests.harness.concurrent_transactions import Beside
from tests.harness.world import make_world
from workhook.core.errors import Forbidden
from workhook.hooks.actions import HookWrite, create_hook, update_hook
from workhook.hooks.bodies import parse_hook
from workhook.hooks.schemas import HookOwner, viewer_of
from workhook.hooks.tables import dispatches, hooks
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.apps.actions import create_app, revoke_tokens
from workhook.identity.apps.app_schemas import OauthAppCreate
from workhook.identity.apps.schemas import App
from workhook.identity.context import Write
from workhook.identity.oauth.grants import allow, revoke_grant
from workhook.identity.schemas import Account, Actor, Repository
from workhook.identity.tables import audit_log
from workhook.identity.tokens.issue import CLASSIC, OAUTH, issue
from workhook.identity.tokens.lookup import find_actor
from workhook.storage import Transaction
from workhook.work.board.projects.actions import add_project
from workhook.work.board.projects.schemas import ProjectCreate
from workhook.work.people import membership
from workhook.work.people.members import remove_member

BASE = "http://h.example"
SCOPES = frozenset({"admin:org_hook", "repo"})


@dataclass
class Scene:
    """Two organizations with an app in common.

    `first` and `second` own one of them, and `third` is an admin of its private project. All have authorized the app,
    and so has the owner of the other organization, which has no access to the first.
    """

    services: Services
    app: App
    here: Account
    project: Repository
    elsewhere: Account
    people: dict[str, Account]
    made: int = 0

    async def make(self, who: str, kind: Literal["organization", "project", "own"], *, tx: Transaction) -> int:
        """Create a webhook as the app acting for the user, and return its ID."""
        user = self.people[who]
        issued = await issue(tx, OAUTH, user.id, scopes=SCOPES, app_id=self.app.id)
        actor = await find_actor(tx, issued.token)
        assert actor is not None
        return await self.make_as(tx, actor, await self.place(tx, actor, kind))

    async def place(self, tx: Transaction, actor: Actor, kind: str) -> HookOwner:
        viewer = viewer_of(actor)
        if kind == "organization":
            return HookOwner(self.elsewhere if actor.user.id == self.people["other"].id else self.here, viewer=viewer)
        if kind == "project":
            return HookOwner(self.here, self.project, viewer)
        own = await queries.find_repository(tx, self.people["first"].login, "mine", actor.user.id)
        assert own is not None
        return HookOwner(own.owner, own, viewer)

    async def make_as(self, tx: Transaction, actor: Actor, place: HookOwner) -> int:
        self.made += 1
        body = {"name": "web", "config": {"url": f"http://127.0.0.1:9/{self.made}"}, "events": ["*"]}
        change = parse_hook(body, place.target, self.services.check_url, creating=True)
        hook = await create_hook(HookWrite(tx, actor, place, self.services.vault, base=BASE), change)
        return hook.id

    async def on(self) -> set[int]:
        """Return the IDs of webhooks that are active or have pending deliveries."""
        there = await self.services.database.fetch_all(sa.select(hooks.c.id).where(hooks.c.active))
        waiting = sa.select(dispatches.c.hook_id).where(dispatches.c.next_attempt_at.is_not(None))
        return {row["id"] for row in there} | {
            row["hook_id"] for row in await self.services.database.fetch_all(waiting)
        }

    async def lose(self, how: str, who: str = "third") -> None:
        async with self.services.database.transaction() as tx:
            await self.lose_in(tx, how, who)

    async def lose_in(self, tx: Transaction, how: str, who: str) -> bool:
        user = self.people[who]
        match how:
            case "consent":
                await revoke_grant(tx, self.app.id, user.id)
            case "member removed":
                await membership.remove_member(Write(tx, None, BASE), self.here, user)
            case "member lowered":
                await membership.set_member(Write(tx, None, BASE), self.here, user, "member")
            case "collaborator removed":
                await membership.remove_collaborator(Write(tx, None, BASE), self.project, user)
            case "collaborator lowered":
                await membership.set_collaborator(Write(tx, None, BASE), self.project, user, "write")
            case "removed by an owner":
                issued = await issue(tx, CLASSIC, self.people["first"].id, scopes=("work",))
                actor = await find_actor(tx, issued.token)
                assert actor is not None
                await remove_member(Write(tx, actor, BASE), self.project.project_id, user.login)
            case "disabled":
                await actions.disable(tx, user, base=BASE)
            case "every token":
                await revoke_tokens(tx, None, self.app)
        return True


@pytest.fixture
async def scene(services: Services) -> Scene:
    here, elsewhere = await make_world(services), await make_world(services)
    async with services.database.transaction() as tx:
        place, other = [await queries.find_account(tx, each.organization) for each in (here, elsewhere)]
        first, stranger = [await queries.find_account(tx, each.owner) for each in (here, elsewhere)]
        assert place and other and first and stranger  # noqa: PT018  # fails if the world is incomplete
        project = await queries.find_repository(tx, here.organization, here.repository, first.id)
        assert project is not None
        people = {"first": first, "other": stranger}
        for name in ("second", "third"):
            login = f"{name}-{place.id}"
            people[name] = await actions.create_account(tx, "user", login, name=None, email=None)
        await actions.set_member(tx, place, people["second"], "owner")
        await actions.set_collaborator(tx, project, people["third"], "admin")
        app, _, _ = await create_app(
            tx, None, other, OauthAppCreate(name=f"Viewer {place.id}", callback_urls=["https://app.example.com/"])
        )
        for each in people.values():
            await allow(tx, app, each.id, SCOPES)
        issued = await issue(tx, CLASSIC, first.id, scopes=("work",))
        actor = await find_actor(tx, issued.token)
        assert actor is not None
        await add_project(
            Write(tx, actor, BASE), ProjectCreate(title="Mine", name="mine", private=True, organization=first.login)
        )
    return Scene(services, app, place, project, other, people)


async def _keep_consents_of(scene: Scene, *names: str) -> None:
    """Revoke the consent of the other users in this organization."""
    for each in {"first", "second", "third"}.difference(names):
        await scene.lose("consent", each)


@pytest.mark.parametrize("how", ["consent", "member removed", "member lowered", "disabled"])
@pytest.mark.parametrize("kind", ["organization", "project"])
async def test_webhooks_are_deactivated_when_the_last_owner_loses_access(
    scene: Scene, how: str, kind: Literal["organization", "project"]
) -> None:
    await _keep_consents_of(scene, "first", "second")
    async with scene.services.database.transaction() as tx:
        hook = await scene.make("second", kind, tx=tx)
        others = await scene.make("other", "organization", tx=tx)
    await scene.lose("consent", "first")
    assert await scene.on() == {hook, others}
    await scene.lose(how, "second")
    assert await scene.on() == {others}
    reasons = await scene.services.database.fetch_all(
        sa.select(audit_log.c.target, audit_log.c.account_id).where(audit_log.c.action == "hook.deactivate")
    )
    assert [(row["target"], row["account_id"]) for row in reasons] == [(f"hook/{hook}", scene.here.id)]


@pytest.mark.parametrize(
    "how",
    ["consent", "collaborator removed", "collaborator lowered", "removed by an owner", "member removed", "disabled"],
)
async def test_webhooks_are_deactivated_when_the_last_admin_of_a_project_loses_access(scene: Scene, how: str) -> None:
    await _keep_consents_of(scene, "third")
    async with scene.services.database.transaction() as tx:
        if how == "member removed":
            await actions.set_member(tx, scene.here, scene.people["third"], "member")
        hook = await scene.make("third", "project", tx=tx)
        others = await scene.make("other", "organization", tx=tx)
    await scene.lose(how)
    assert await scene.on() == {others}
    assert hook not in {others}


async def test_webhooks_of_a_users_own_project_depend_on_their_consent(scene: Scene) -> None:
    async with scene.services.database.transaction() as tx:
        own = await scene.make("first", "own", tx=tx)
        here = await scene.make("first", "organization", tx=tx)
    await scene.lose("member removed", "first")
    assert await scene.on() == {own, here}  # the second owner has consented too
    await scene.lose("consent", "first")
    assert await scene.on() == {here}


async def test_disabling_a_user_deactivates_webhooks_everywhere(scene: Scene) -> None:
    """This includes webhooks of a user's own project, and those for which only a disabled user's consent remains."""
    await _keep_consents_of(scene, "first", "third")
    async with scene.services.database.transaction() as tx:
        own = await scene.make("first", "own", tx=tx)
        here = await scene.make("first", "organization", tx=tx)
        project = await scene.make("third", "project", tx=tx)
        others = await scene.make("other", "organization", tx=tx)
    await scene.lose("disabled", "first")
    assert await scene.on() == {project, others}
    async with scene.services.database.transaction() as tx:
        await actions.enable(tx, scene.people["first"])
    assert await scene.on() == {project, others}, "the app turns them on again, if it still wants them"
    assert here not in {own, project}


async def test_webhooks_remain_active_while_another_user_has_access(scene: Scene) -> None:
    async with scene.services.database.transaction() as tx:
        hook = await scene.make("third", "project", tx=tx)
    for how, who in (("collaborator lowered", "third"), ("member lowered", "second")):
        await scene.lose(how, who)
        assert await scene.on() == {hook}
    await scene.lose("every token")
    assert await scene.on() == set()


@pytest.mark.parametrize("scopes", [{"work"}, {"read:repo_hook", "work:read"}, {"admin:org_hook"}])
async def test_a_consent_to_other_scopes_keeps_no_webhook_active(scene: Scene, scopes: Collection[str]) -> None:
    await _keep_consents_of(scene, "third")
    async with scene.services.database.transaction() as tx:
        await scene.make("third", "project", tx=tx)
        await allow(tx, scene.app, scene.people["first"].id, frozenset(scopes))
    await scene.lose("collaborator removed")
    assert await scene.on() == set()


# --- concurrency -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "who", "kind"),
    [
        ("member removed", "second", "organization"),
        ("member lowered", "second", "project"),
        ("collaborator lowered", "third", "project"),
        ("collaborator removed", "third", "project"),
        ("disabled", "second", "organization"),
        ("disabled", "third", "project"),
        ("disabled", "first", "own"),
    ],
)
async def test_a_webhook_created_while_the_user_loses_access_is_deactivated(
    scene: Scene, beside: Beside, how: str, who: str, kind: str
) -> None:
    await _keep_consents_of(scene, who)
    async with scene.services.database.transaction() as tx:
        issued = await issue(tx, OAUTH, scene.people[who].id, scopes=SCOPES, app_id=scene.app.id)
        actor = await find_actor(tx, issued.token)
        assert actor is not None
        place = await scene.place(tx, actor, kind)
    async with scene.services.database.transaction() as tx:
        hook = await scene.make_as(tx, actor, place)
        losing = await beside.begin(lambda other: scene.lose_in(other, how, who))
    assert await losing
    assert await scene.on() == set()
    with pytest.raises(Forbidden):  # the guard had admitted the request before
        async with scene.services.database.transaction() as tx:
            await scene.make_as(tx, actor, place)
    change = parse_hook({"active": True}, place.target, scene.services.check_url, creating=False)
    with pytest.raises(Forbidden):
        async with scene.services.database.transaction() as tx:
            await update_hook(HookWrite(tx, actor, place, scene.services.vault), hook, change)
    assert await scene.on() == set()
