"""What can be done with hooks: create, update, delete. Answers only after the commit (the caller's transaction)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

import msgspec
import sqlalchemy as sa
from msgspec import UNSET

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.errors import Forbidden, Invalid, NotFound, Unauthenticated
from workhook.core.vault import Vault
from workhook.events import outbox
from workhook.events.zen import zen
from workhook.hooks import queries
from workhook.hooks.fan_out import fan_out_about, insert_dispatches
from workhook.hooks.parsing import ConfigChange, HookChange, fault, require_standard_secret
from workhook.hooks.records import HOOK_COLUMNS, Hook, Place, config_shape, hook_shape, plain_config, viewer_of
from workhook.hooks.tables import dispatches, hooks, lanes
from workhook.identity import audit
from workhook.identity.schemas import Actor
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.identity.tokens.queries import keep_living
from workhook.storage import Transaction
from workhook.storage.metadata import big, insert_into
from workhook.storage.signals import HOOK

_insert = insert_into(hooks, *(name for name in HOOK_COLUMNS if name != "id")).returning(hooks.c.id)
_FIXED = ("id", "account_id", "repository_id", "created_at", "app_id", "installation_id")
_update = (
    sa.update(hooks)
    .where(hooks.c.id == big("hook_id"))
    .values({name: sa.bindparam(name) for name in HOOK_COLUMNS if name not in _FIXED})
)
_delete = sa.delete(hooks).where(hooks.c.id == big("hook_id"))
_insert_lane = insert_into(lanes, "hook_id", "lease_until", "manual_minute", "manual_count")
_waiting = (
    sa.select(dispatches.c.id)
    .where(dispatches.c.hook_id == big("hook_id"), dispatches.c.next_attempt_at.is_not(None))
    .order_by(dispatches.c.id)
    .with_for_update()
    .cte("waiting")
)
_drop_waiting = (
    sa.update(dispatches).where(dispatches.c.id.in_(sa.select(_waiting.c.id))).values(next_attempt_at=None, wanted=0)
)
_healthy_again = sa.update(lanes).where(lanes.c.hook_id == big("hook_id")).values(failing_since=None)
# Two creations at once could each see room for one hook more: they take turns on the row of what they belong to.
_lock_repository = (
    sa.select(projects.c.name)
    .where(projects.c.repository_id == big("id"), projects.c.deleted_at.is_(None))
    .with_for_update()
)
# Held by many at once, with the user, but not while somebody changes, removes or disables them.
_keep_owner = (
    sa.select(memberships.c.role)
    .join_from(memberships, accounts, accounts.c.id == memberships.c.user_id)
    .where(
        accounts.c.disabled_at.is_(None),
        memberships.c.organization_id == big("account_id"),
        memberships.c.user_id == big("user_id"),
        memberships.c.role == "owner",
    )
    .with_for_update(read=True)
)
_keep_admin = (
    sa.select(collaborators.c.role)
    .join_from(collaborators, accounts, accounts.c.id == collaborators.c.user_id)
    .where(
        accounts.c.disabled_at.is_(None),
        collaborators.c.repository_id == big("repository_id"),
        collaborators.c.user_id == big("user_id"),
        collaborators.c.role == "admin",
    )
    .with_for_update(read=True)
)
_keep_user = (
    sa.select(accounts.c.id).where(accounts.c.id == big("user_id"), accounts.c.disabled_at.is_(None))
).with_for_update(read=True)
_lock_account = sa.select(accounts.c.login).where(accounts.c.id == big("id")).with_for_update()


async def create_hook(
    tx: Transaction, actor: Actor, place: Place, change: HookChange, *, vault: Vault, limit: int, base: str
) -> Hook:
    """A new active hook is sent a ping. Raises `Invalid` for one that exists already, or one too many for an event."""
    assert change.config is not None, "a create always has a configuration"
    await _take_turn(tx, actor, place)
    config = change.config
    require_standard_secret(plain_config(config.shown), config.secret or None)
    now = now_ms()
    hook = Hook(
        id=0,
        account_id=place.account.id,
        repository_id=place.repository_id,
        active=change.active is not False,
        events=change.events or ["push"],
        config=plain_config(config.shown),
        secret=vault.seal(config.secret or None),
        previous_secret=None,
        previous_secret_until=None,
        password=vault.seal(config.password or None),
        version=1,
        created_at=now,
        updated_at=now,
        app_id=viewer_of(actor).app_id,
        installation_id=actor.installation_id,
    )
    await _check_against_others(tx, place, hook, limit)
    row = await tx.fetch_one(_insert, _stored(hook))
    assert row is not None
    hook = msgspec.structs.replace(hook, id=row["id"])
    tx.later(_insert_lane, [{"hook_id": hook.id, "lease_until": 0, "manual_minute": 0, "manual_count": 0}])
    await _audit(tx, actor, place, hook, "hook.create")
    if hook.active:
        await send_ping(tx, actor, place, hook, base)
    return hook


async def update_hook(
    tx: Transaction, actor: Actor, place: Place, hook_id: int, change: HookChange, *, vault: Vault, limit: int
) -> Hook:
    """A PATCH of a hook: a configuration replaces the old one (the spec: without a secret, the secret is removed)."""
    await _take_turn(tx, actor, place)
    hook = await _found(tx, actor, place, hook_id)
    events = hook.events
    if change.events is not UNSET:
        events = change.events
    elif change.add_events or change.remove_events:
        kept = [name for name in events if name not in change.remove_events]
        events = list(dict.fromkeys([*kept, *change.add_events]))
    changed = msgspec.structs.replace(
        hook, events=events, active=hook.active if change.active is UNSET else change.active
    )
    if change.config is not None:
        changed = _replace_config(changed, change.config, vault)
        require_standard_secret(changed.config, vault.open(changed.secret))
    return await _save(tx, actor, place, hook, changed, limit)


async def update_config(
    tx: Transaction, actor: Actor, place: Place, hook_id: int, config: ConfigChange, *, vault: Vault, limit: int
) -> Hook:
    """A PATCH of the configuration: changes only what is given."""
    await _take_turn(tx, actor, place)
    hook = await _found(tx, actor, place, hook_id)
    changed = msgspec.structs.replace(hook, config=plain_config({**hook.config, **config.shown}))
    _keep_password_at_home(hook, changed, config)
    if config.secret is not UNSET:
        changed = _rotate(changed, vault.seal(config.secret), config.previous_secret_expires_in_s)
    if config.password is not UNSET:
        changed = msgspec.structs.replace(changed, password=vault.seal(config.password))
    require_standard_secret(changed.config, vault.open(changed.secret))
    return await _save(tx, actor, place, hook, changed, limit)


async def delete_hook(tx: Transaction, actor: Actor, place: Place, hook_id: int) -> None:
    """What waits for the hook is dropped; what was delivered is pruned with the rest of its age."""
    hook = await _found(tx, actor, place, hook_id)
    await tx.execute(_delete, {"hook_id": hook_id})
    await tx.execute(_drop_waiting, {"hook_id": hook_id})
    await _audit(tx, actor, place, hook, "hook.delete")
    _announce(tx, hook_id)


async def deactivate(tx: Transaction, place: Place, hook: Hook, reason: str, base: str) -> None:
    """Workhook itself turns a hook off: an audit entry and a `hook` event tell why."""
    changed = msgspec.structs.replace(hook, active=False, version=hook.version + 1, updated_at=now_ms())
    await tx.execute(_update, {**_stored(changed), "hook_id": hook.id})
    await tx.execute(_drop_waiting, {"hook_id": hook.id})
    await _audit(tx, None, place, changed, "hook.deactivate", reason=reason)
    event = await outbox.append(
        tx,
        account_id=place.account.id,
        repository_id=place.repository_id,
        name="hook",
        action="deactivated",
        payload={
            "action": "deactivated",
            "hook": hook_shape(changed, place, base),
            "reason": reason,
            **place.context(base, None),
        },
        installation_id=hook.installation_id,
        to_hooks=False,
    )
    await fan_out_about(tx, event, hook.app_id)
    _announce(tx, hook.id)


async def send_ping(tx: Transaction, actor: Actor | None, place: Place, hook: Hook, base: str) -> None:
    """A `ping` for this hook alone."""
    event = await outbox.append(
        tx,
        account_id=place.account.id,
        repository_id=place.repository_id,
        name="ping",
        action=None,
        payload={
            "zen": zen(),
            "hook_id": hook.id,
            "hook": hook_shape(hook, place, base),
            **place.context(base, actor.user if actor else None),
        },
        installation_id=actor.installation_id if actor else None,
        to_hooks=False,
    )
    await insert_dispatches(tx, [(event.id, hook.id)], by_hand=True)


async def _take_turn(tx: Transaction, actor: Actor, place: Place) -> None:
    """Raises `Unauthenticated` if the token was revoked since the guard looked. Whoever ends a token removes what it
    made, or turns it off: nothing is made behind their back, which would send for ever."""
    if not await keep_living(tx, actor.token_id):
        raise Unauthenticated("Bad credentials")
    if place.repository:
        if await tx.fetch_one(_lock_repository, {"id": place.repository.id}) is None:
            raise NotFound()  # deleted since the guard looked
    else:
        await tx.fetch_one(_lock_account, {"id": place.account.id})
    if viewer_of(actor).app_id is not None:
        await _keep_right(tx, actor, place)


async def _keep_right(tx: Transaction, actor: Actor, place: Place) -> None:
    """Raises `Forbidden` if the user of an OAuth app lost its right since the guard looked. Until the transaction ends
    nobody takes it: whoever does then finds what was made, and turns it off."""
    named = {"account_id": place.account.id, "repository_id": place.repository_id, "user_id": actor.user.id}
    keeping = _keep_user if place.account.id == actor.user.id else _keep_owner
    if await tx.fetch_one(keeping, named) is not None:
        return
    if place.repository is None or await tx.fetch_one(_keep_admin, named) is None:
        raise Forbidden("The right to have webhooks here was taken away.", code="missing_role")


async def _found(tx: Transaction, actor: Actor, place: Place, hook_id: int) -> Hook:
    hook = await queries.find_hook(tx, place, hook_id, actor=actor, for_update=True)
    if hook is None:
        raise NotFound()
    return hook


def _replace_config(hook: Hook, config: ConfigChange, vault: Vault) -> Hook:
    shown = plain_config(config.shown)
    # Only an organization's hook must name its url again (the spec); a repository's keeps it.
    shown.setdefault("url", hook.config["url"])
    secret = hook.secret if config.secret_masked else vault.seal(config.secret or None)
    password = hook.password if config.password_masked else vault.seal(config.password or None)
    changed = msgspec.structs.replace(hook, config=shown, password=password)
    if config.password_masked:
        _keep_password_at_home(hook, changed, config)
    if config.secret_masked:
        return changed
    return _rotate(changed, secret, config.previous_secret_expires_in_s)


def _keep_password_at_home(old: Hook, new: Hook, config: ConfigChange) -> None:
    """Whoever may edit a hook may not read its password by having it sent to a host of their own."""
    home = [urlsplit(each.config["url"])[:2] for each in (old, new)]
    if old.password is not None and config.password is UNSET and home[0] != home[1]:
        message = "password must be sent again when the url names another server"
        raise Invalid(faults=[fault(message, field="password")])


def _rotate(hook: Hook, secret: bytes | None, keep_s: int | None) -> Hook:
    """A new secret; the old one signs beside it for `keep_s` seconds where the header style has room for two."""
    kept = hook.secret if keep_s and secret is not None else None
    until = now_ms() + keep_s * 1000 if kept is not None and keep_s else None
    return msgspec.structs.replace(hook, secret=secret, previous_secret=kept, previous_secret_until=until)


async def _save(tx: Transaction, actor: Actor, place: Place, old: Hook, new: Hook, limit: int) -> Hook:
    if new == old:
        return old
    if new.events != old.events or new.config != old.config:
        await _check_against_others(tx, place, new, limit, before=old.events)
    new = msgspec.structs.replace(new, version=old.version + 1, updated_at=now_ms())
    await tx.execute(_update, {**_stored(new), "hook_id": new.id})
    if new.active != old.active:
        # Off: what waits is dropped. On: so is what slipped in between, and the count of failing days starts anew.
        # The lane first, then its dispatches, as everywhere: who locks two rows in another order meets a deadlock.
        await tx.execute(_healthy_again, {"hook_id": new.id})
        await tx.execute(_drop_waiting, {"hook_id": new.id})
    await _audit(tx, actor, place, new, "hook.update")
    _announce(tx, new.id)
    return new


async def _check_against_others(
    tx: Transaction, place: Place, hook: Hook, limit: int, before: Iterable[str] = ()
) -> None:
    others = [each for each in await queries.all_hooks(tx, place) if each.id != hook.id]
    same: Callable[[Hook], tuple[str, frozenset[str], str]] = lambda each: (  # noqa: E731  # a key, used twice below
        each.config.get("url", ""),
        frozenset(each.events),
        each.content_type,
    )
    if any(same(each) == same(hook) for each in others):
        raise Invalid(faults=[fault(f"Hook already exists on this {place.target}")])
    # Counted among what the caller sees, here as well: a refusal would tell of hooks that do not exist for it.
    if limit:
        full = [
            name for name in hook.events if name not in before and sum(name in each.events for each in others) >= limit
        ]
        if full:
            message = 'The "{}" event cannot have more than {} hooks'
            raise Invalid(faults=[fault(message.format(name, limit)) for name in full])


def _stored(hook: Hook) -> dict[str, object]:
    values = msgspec.structs.asdict(hook)
    del values["id"]
    return {**values, "events": json.encode_text(hook.events), "config": json.encode_text(hook.config)}


async def _audit(tx: Transaction, actor: Actor | None, place: Place, hook: Hook, action: str, **detail: object) -> None:
    """Owners read of an OAuth app's hook that it is there and what it asks for, not where it sends that."""
    config = {"config": config_shape(hook)} if hook.app_id is None else {}
    await audit.record(
        tx,
        actor,
        action,
        f"hook/{hook.id}",
        account_id=place.account.id,
        repository_id=place.repository_id,
        detail={"active": hook.active, "events": hook.events, **config, **detail},
    )


def _announce(tx: Transaction, hook_id: int) -> None:
    signals = tx.signals
    tx.after_commit(lambda: signals.send(HOOK, {hook_id}))


__all__ = [
    "create_hook",
    "deactivate",
    "delete_hook",
    "send_ping",
    "update_config",
    "update_hook",
]
