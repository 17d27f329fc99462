"""Callers of lists, each with a token: members of one organization, of both and of none, collaborators, and machines.

They are created after the tables are filled. Each sees some of very many rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from tests.harness.world import World, add_client, add_user
from tests.plans.filled import OTHER_ORGANIZATION_ID, START
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.apps import actions, credentials, installer
from workhook.identity.apps.app_schemas import AppCreate
from workhook.identity.apps.queries import find_app
from workhook.identity.tokens.issue import FINE_GRAINED, INSTALLATION, issue
from workhook.identity.tokens.lookup import find_actor
from workhook.storage import Transaction

PERMISSIONS: dict[str, Any] = {"work": "write"}

_JOINED = sa.text("INSERT INTO memberships VALUES (:organization, :user, :role, 1)")
_BY_HAND = sa.text(
    "INSERT INTO collaborators (repository_id, user_id, role, created_at)"
    f" SELECT repository_id, :user, 'admin', {START} FROM projects WHERE name LIKE 'many-%'"  # a number
)
_SOME = sa.text(
    "SELECT repository_id FROM projects WHERE account_id = :organization AND NOT private ORDER BY 1 LIMIT 20"
)


async def _id_of(tx: Transaction, token: str) -> int:
    actor = await find_actor(tx, token)
    assert actor is not None
    return actor.user.id


async def make(services: Services, world: World) -> Mapping[str, str]:
    """Return the tokens by the caller names used in rows."""
    client = await add_client(services, world)
    member = await add_user(services, world, member="member")
    both = await add_user(services, world, member="owner")
    creator = await add_user(services, world)
    key = await credentials.new_key()
    async with services.database.transaction() as tx:
        place = await queries.find_account(tx, world.organization)
        assert place is not None
        for token, role in ((member, "member"), (both, "member")):
            joined = {"organization": OTHER_ORGANIZATION_ID, "user": await _id_of(tx, token), "role": role}
            await tx.execute(_JOINED, joined)
        await tx.execute(_BY_HAND, {"user": await _id_of(tx, creator)})
        some = [row["repository_id"] for row in await tx.fetch_all(_SOME, {"organization": place.id})]
        boss = await _id_of(tx, both)
        confined: dict[str, Any] = {"permissions": PERMISSIONS, "account_id": place.id}
        fine = await issue(tx, FINE_GRAINED, boss, **confined)
        chosen = await issue(tx, FINE_GRAINED, boss, repository_ids=some, **confined)
        app, _, _ = await actions.create_app(
            tx, None, place, AppCreate(name="Robot of plans", permissions=PERMISSIONS, public=False), key=key
        )
        there = await installer.install(tx, None, app, place)
        found = await find_app(tx, app.id)
        assert found is not None
        assert found.bot_id is not None
        machine = await issue(
            tx, INSTALLATION, found.bot_id, permissions=PERMISSIONS, app_id=app.id, installation_id=there.id
        )
    return {
        "client": client, "member": member, "both": both, "creator": creator, "fine": fine.token,
        "chosen": chosen.token, "machine": machine.token,
    }  # fmt: skip
