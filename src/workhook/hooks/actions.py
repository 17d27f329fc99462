"""Creates, updates and deletes hooks in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

import msgspec
import sqlalchemy as sa
from msgspec import UNSET

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.errors import Forbidden, Invalid, NotFound, Unauthenticated, require_found, say
from workhook.core.urls import requested_url
from workhook.core.vault import Vault
from workhook.events import samples
from workhook.events.catalog import ANY_EVENT, known
from workhook.events.hook_config import ConfigChange, fault, mask_faults, require_standard_secret
from workhook.events.samples import random_quote
from workhook.hooks import deliveries, publishing, queries, redelivery
from workhook.hooks.bodies import HookChange
from workhook.hooks.fan_out import drop_waiting, fan_out_about, send_by_hand
from workhook.hooks.history import Filters
from workhook.hooks.schemas import (
    HOOK_COLUMNS,
    Hook,
    HookOwner,
    config_to_response,
    hook_to_response,
    plain_config,
    viewer_of,
)
from workhook.hooks.tables import hooks, lanes
from workhook.http.calls import Call, Services
from workhook.http.endpoints import EmptyObject
from workhook.identity import audit
from workhook.identity import queries as identity_queries
from workhook.identity.authenticator import actor_of, caller_of
from workhook.identity.context import Write
from workhook.identity.notifications import notification_statements, owners_and_admins
from workhook.identity.schemas import Account, Actor
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.identity.tokens.personal import lock_living
from workhook.storage import Reader, Transaction
from workhook.storage.metadata import bigint_param, insert_into
from workhook.storage.signals import HOOK

_FIXED = ("id", "account_id", "repository_id", "created_at", "app_id", "installation_id")
_update = (
    sa.update(hooks)
    .where(hooks.c.id == bigint_param("hook_id"))
    .values({name: sa.bindparam(name) for name in HOOK_COLUMNS if name not in _FIXED})
)
_delete = sa.delete(hooks).where(hooks.c.id == bigint_param("hook_id"))
_of_an_app = sa.select(hooks.c.repository_id).where(
    hooks.c.id == bigint_param("hook_id"), hooks.c.account_id == bigint_param("account_id"), hooks.c.app_id.is_not(None)
)
_insert_lane = insert_into(lanes, "hook_id", "manual_minute", "manual_count")
_healthy_again = sa.update(lanes).where(lanes.c.hook_id == bigint_param("hook_id")).values(failing_since=None)
# Two concurrent creations could both see room for one more hook, so they are serialized by locking the owner's row.
_lock_repository = (
    sa.select(projects.c.name)
    .where(projects.c.repository_id == bigint_param("id"), projects.c.deleted_at.is_(None))
    .with_for_update()
)


# A shared lock on a right and its user blocks changes of both. The right is locked first, as when it is revoked:
# PostgreSQL locks in FROM order, and opposite orders could deadlock.
_lock_user = (
    sa.select(accounts.c.id)
    .where(accounts.c.id == bigint_param("user_id"), accounts.c.disabled_at.is_(None))
    .with_for_update(read=True)
)


def _lock_right(right: sa.Table, *conditions: sa.ColumnElement[bool]) -> sa.Select[tuple[str]]:
    return (
        sa.select(right.c.role)
        .join_from(right, accounts, accounts.c.id == right.c.user_id)
        .where(right.c.user_id == bigint_param("user_id"), accounts.c.disabled_at.is_(None), *conditions)
        .with_for_update(read=True)
    )


_lock_ownership = _lock_right(
    memberships, memberships.c.organization_id == bigint_param("account_id"), memberships.c.role == "owner"
)
_lock_admin = _lock_right(
    collaborators, collaborators.c.repository_id == bigint_param("repository_id"), collaborators.c.role == "admin"
)
_tell = notification_statements(
    "hook_disabled", sa.select(accounts).where(owners_and_admins), {"hook_id": bigint_param("hook_id")}
)
_lock_account = sa.select(accounts.c.login).where(accounts.c.id == bigint_param("id")).with_for_update()


@dataclass(frozen=True)
class HookWrite:
    """The context of a change to an owner's hooks. `actor` is None for a command. `base`: prefix of links in events."""

    tx: Transaction
    actor: Actor | None
    owner: HookOwner
    vault: Vault
    limit: int = 0  # hooks per event; 0: no limit
    base: str = ""


async def create_hook(write: HookWrite, change: HookChange) -> Hook:
    """Create a hook, and ping it if active. Raises `Invalid` if it exists or an event would have too many hooks."""
    assert change.config is not None, "a create always has a configuration"
    await lock_owner(write)
    tx, actor, owner, vault, config = write.tx, write.actor, write.owner, write.vault, change.config
    require_standard_secret(plain_config(config.shown), config.secret or None)
    now = now_ms()
    hook = Hook(
        id=0, account_id=owner.account.id, repository_id=owner.repository_id, active=change.active is not False,
        events=change.events or ["push"], config=plain_config(config.shown), secret=vault.seal(config.secret or None),
        previous_secret=None, previous_secret_until=None, password=vault.seal(config.password or None), version=1,
        created_at=now, updated_at=now, app_id=viewer_of(actor).app_id,
        installation_id=actor.installation_id if actor else None,
    )  # fmt: skip
    await _check_against_others(write, hook)
    hook = msgspec.structs.replace(hook, id=await tx.insert(hooks, _stored(hook)))
    tx.defer(_insert_lane, [{"hook_id": hook.id, "manual_minute": 0, "manual_count": 0}])
    _audit(tx, actor, owner, hook, "hook.create")
    if hook.active:
        await send_ping(tx, actor, owner, hook, write.base)
    return hook


async def update_hook(write: HookWrite, hook_id: int, change: HookChange) -> Hook:
    """Update a hook. A new configuration replaces the old one; without `secret`, it also removes the secret."""
    await lock_owner(write)
    hook = await _locked_hook(write.tx, write.actor, write.owner, hook_id)
    events = hook.events
    if change.events is not UNSET:
        events = change.events
    elif change.add_events or change.remove_events:
        kept = [name for name in events if name not in change.remove_events]
        events = list(dict.fromkeys([*kept, *change.add_events]))
    active = hook.active if change.active is UNSET else change.active
    changed = msgspec.structs.replace(hook, events=events, active=active)
    if change.config is not None:
        _require_stored(hook, change.config)
        changed = _replace_config(changed, change.config, write.vault)
        require_standard_secret(changed.config, write.vault.open(changed.secret))
    return await _save(write, hook, changed)


async def update_config(write: HookWrite, hook_id: int, config: ConfigChange) -> Hook:
    """Update the configuration. Only the given keys change."""
    await lock_owner(write)
    hook = await _locked_hook(write.tx, write.actor, write.owner, hook_id)
    _require_stored(hook, config)
    changed = msgspec.structs.replace(hook, config=plain_config({**hook.config, **config.shown}))
    _keep_password_at_home(hook, changed, config)
    if config.secret is not UNSET:
        changed = _rotate(changed, write.vault.seal(config.secret), config.previous_secret_expires_in_s)
    if config.password is not UNSET:
        changed = msgspec.structs.replace(changed, password=write.vault.seal(config.password))
    require_standard_secret(changed.config, write.vault.open(changed.secret))
    return await _save(write, hook, changed)


async def delete_hook(tx: Transaction, actor: Actor | None, owner: HookOwner, hook_id: int) -> None:
    """Delete a hook and drop its waiting dispatches. Its deliveries are purged at the end of the retention period."""
    hook = await _locked_hook(tx, actor, owner, hook_id)
    await tx.execute(_delete, {"hook_id": hook_id})
    await drop_waiting(tx, [hook_id])
    _audit(tx, actor, owner, hook, "hook.delete")
    tx.signal(HOOK, {hook_id})


async def delete_app_hook(tx: Transaction, actor: Actor, organization: Account, hook_id: int) -> None:
    """Delete a webhook of an OAuth app on behalf of an organization owner. Raises `NotFound` for other webhooks."""
    row = require_found(await tx.fetch_one(_of_an_app, {"hook_id": hook_id, "account_id": organization.id}))
    repository = None
    if row["repository_id"] is not None:
        repository = require_found(
            await identity_queries.find_repository_by_id(tx, row["repository_id"], actor.user.id)
        )
    await delete_hook(tx, actor, HookOwner(organization, repository), hook_id)


async def deactivate_failing(services: Services, seen: Hook, reason: str) -> bool:
    """Deactivate a failing hook unless it has changed since `seen`, its state when the receiver failed.

    The reason is recorded in the audit log and a `hook` event. Returns whether the hook was deactivated.
    """
    return await services.database.in_transaction(partial(_deactivate, seen=seen, reason=reason, base=services.base))


async def _deactivate(tx: Transaction, seen: Hook, reason: str, base: str) -> bool:
    repository = None
    if seen.repository_id is not None:
        repository = await identity_queries.find_repository_by_id(tx, seen.repository_id)
    account = await identity_queries.find_account_by_id(tx, seen.account_id)
    if account is None or (repository is None and seen.repository_id is not None):
        return False
    owner = HookOwner(account, repository)
    hook = await queries.find_hook(tx, owner, seen.id, for_update=True)
    if hook is None or not hook.active or hook.version != seen.version:
        return False
    changed = msgspec.structs.replace(hook, active=False, version=hook.version + 1, updated_at=now_ms())
    await tx.execute(_update, {**_stored(changed), "hook_id": hook.id})
    await drop_waiting(tx, [hook.id])
    _audit(tx, None, owner, changed, "hook.deactivate", reason=reason)
    shape = hook_to_response(changed, owner, base)
    payload = {"action": "deactivated", "hook": shape, "reason": reason, **owner.context(base, None)}
    await fan_out_about(tx, owner.draft("hook", "deactivated", payload, hook.installation_id), hook)
    if hook.only_app is None:
        place = {"account_id": owner.account.id, "repository_id": hook.repository_id, "hook_id": hook.id}
        _tell.defer(tx, {**place, "actor_id": None, "detail": reason, "now": now_ms()})
    tx.signal(HOOK, {hook.id})
    return True


async def send_ping(tx: Transaction, actor: Actor | None, owner: HookOwner, hook: Hook, base: str) -> None:
    context = owner.context(base, actor.user if actor else None)
    payload = {"zen": random_quote(), "hook_id": hook.id, "hook": hook_to_response(hook, owner, base), **context}
    draft = owner.draft("ping", None, payload, actor.installation_id if actor else None)
    await send_by_hand(tx, draft, hook)


async def lock_owner(write: HookWrite) -> None:
    """Lock the owner's hooks: concurrent changes are serialized, and each one sees the results of the others.

    Raises `Unauthenticated` if the token was revoked since it was checked, because a revocation must not miss what the
    token creates. Raises `Forbidden` if the user of an OAuth app has lost the right meanwhile. The right cannot be
    revoked before the transaction ends; revoking it deactivates the hooks.
    """
    tx, actor, owner = write.tx, write.actor, write.owner
    # A session has no token, and ending it disables nothing.
    if actor is not None and actor.token_id and not await lock_living(tx, actor.token_id):
        raise Unauthenticated("Bad credentials")
    if owner.repository:
        if await tx.fetch_one(_lock_repository, {"id": owner.repository.id}) is None:
            raise NotFound()  # deleted since the path was checked
    else:
        await tx.fetch_one(_lock_account, {"id": owner.account.id})
    if actor is None or viewer_of(actor).app_id is None:
        return
    named = {"account_id": owner.account.id, "repository_id": owner.repository_id, "user_id": actor.user.id}
    if await tx.fetch_one(_lock_user if owner.account.id == actor.user.id else _lock_ownership, named) is not None:
        return
    if owner.repository is None or await tx.fetch_one(_lock_admin, named) is None:
        raise Forbidden(say("You no longer have permission to manage webhooks here."), code="missing_role")


async def _locked_hook(tx: Transaction, actor: Actor | None, owner: HookOwner, hook_id: int) -> Hook:
    return require_found(await queries.find_hook(tx, owner, hook_id, actor=actor, for_update=True))


def _replace_config(hook: Hook, config: ConfigChange, vault: Vault) -> Hook:
    shown = plain_config(config.shown)
    # Only an organization's hook must repeat its url; a repository's hook keeps it.
    shown.setdefault("url", hook.config["url"])
    password = hook.password if config.password_masked else vault.seal(config.password or None)
    changed = msgspec.structs.replace(hook, config=shown, password=password)
    if config.password_masked:
        _keep_password_at_home(hook, changed, config)
    if config.secret_masked:
        return changed
    return _rotate(changed, vault.seal(config.secret or None), config.previous_secret_expires_in_s)


def _require_stored(hook: Hook, config: ConfigChange) -> None:
    """Raise `Invalid` if a mask is given where nothing is stored."""
    if wrong := mask_faults(config, secret=hook.secret, password=hook.password):
        raise Invalid(faults=wrong)


def _keep_password_at_home(old: Hook, new: Hook, config: ConfigChange) -> None:
    """Raise `Invalid` if the password would be sent to another host, which would reveal it to an editor of the hook."""
    home = [urlsplit(each.config["url"])[:2] for each in (old, new)]
    if old.password is not None and config.password is UNSET and home[0] != home[1]:
        message = "password must be sent again when the url names another server"
        raise Invalid(faults=[fault(message, field="password")])


def _rotate(hook: Hook, secret: bytes | None, keep_s: int | None) -> Hook:
    """Set a new secret. The old one keeps signing for `keep_s` seconds, if the header style supports two signatures."""
    kept = hook.secret if keep_s and secret is not None else None
    until = now_ms() + keep_s * 1000 if kept is not None and keep_s else None
    return msgspec.structs.replace(hook, secret=secret, previous_secret=kept, previous_secret_until=until)


async def _save(write: HookWrite, old: Hook, new: Hook) -> Hook:
    if new == old:
        return old
    tx = write.tx
    if new.events != old.events or new.config != old.config or new.active > old.active:
        await _check_against_others(write, new, old)
    new = msgspec.structs.replace(new, version=old.version + 1, updated_at=now_ms())
    await tx.execute(_update, {**_stored(new), "hook_id": new.id})
    if new.active != old.active:
        # Activating the hook also resets its failing days and drops dispatches that slipped in meanwhile. Lanes are
        # locked before dispatches, as everywhere else, because another order could deadlock.
        await tx.execute(_healthy_again, {"hook_id": new.id})
        await drop_waiting(tx, [new.id])
    _audit(tx, write.actor, write.owner, new, "hook.update", **changes_of(old, new, write.vault))
    tx.signal(HOOK, {new.id})
    return new


def _target(hook: Hook) -> tuple[str, str]:
    """Return the hook's target. Hooks with the same target may not share an event, which would arrive twice."""
    return requested_url(hook.config.get("url", "")), hook.content_type


def _overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether the lists share an event; `*` matches every event."""
    if not one or not other:
        return False
    return ANY_EVENT in one or ANY_EVENT in other or not set(one).isdisjoint(other)


def _clashes(other: Hook, new: Hook, old: Hook | None) -> bool:
    """Return whether a change from `old` (None for a new hook) would make an event arrive twice at one target.

    Inactive hooks count, as on GitHub, so that they can be activated again. Duplicates left by an import do not block
    changes: only events new at the target are checked and, when a hook is activated, other active hooks.
    """
    if _target(other) != _target(new):
        return False
    if old is not None and _target(old) == _target(new):
        if new.active and not old.active and other.active and _overlap(other.events, new.events):
            return True
        new_events = list(new.events) if ANY_EVENT not in old.events else []
        return _overlap(other.events, [name for name in new_events if name not in old.events])
    return _overlap(other.events, new.events)


async def _check_against_others(write: HookWrite, hook: Hook, old: Hook | None = None) -> None:
    # Only hooks visible to the caller are compared and counted, because a rejection must not reveal others.
    others = [each for each in await queries.all_hooks(write.tx, write.owner) if each.id != hook.id]
    if any(_clashes(each, hook, old) for each in others):
        raise Invalid(faults=[fault(say("Hook already exists on this {}", write.owner.target))])
    before = old.events if old else ()
    added = [name for name in hook.events if name not in before] if write.limit else []
    if full := [name for name in added if sum(name in each.events for each in others) >= write.limit]:
        faults = [fault(say('The "{}" event cannot have more than {} hooks', name, write.limit)) for name in full]
        raise Invalid(faults=faults)


def _stored(hook: Hook) -> dict[str, object]:
    values = msgspec.structs.asdict(hook)
    del values["id"]
    return {**values, "events": json.encode_text(hook.events), "config": json.encode_text(hook.config)}


def _audit(tx: Transaction, actor: Actor | None, owner: HookOwner, hook: Hook, action: str, **detail: object) -> None:
    """Record a change, without the configuration of a hook that is hidden from owners."""
    config = {"config": config_to_response(hook)} if hook.only_app is None else {}
    detail = {"active": hook.active, "events": hook.events, **config, **detail}
    target = audit.AuditTarget(f"hook/{hook.id}", owner.account.id, owner.repository_id, detail)
    audit.record_all(tx, actor, action, [target])


def changes_of(old: Hook, new: Hook, vault: Vault) -> dict[str, object]:
    """Return the audit details of a change.

    `changed`: the changed fields, such as `active`, `config.url` and `config.secret`. `before`: their previous values
    except secrets, and without the configuration of a hook that only an OAuth app sees. `secrets`: `config.secret` and
    `config.password`, each `set`, `changed` or `removed`.
    """
    plain = {name: getattr(old, name) for name in ("active", "events") if getattr(old, name) != getattr(new, name)}
    names = sorted(old.config.keys() | new.config.keys())
    config = {f"config.{name}": old.config.get(name) for name in names if old.config.get(name) != new.config.get(name)}
    secrets = {}
    for name in ("secret", "password"):
        was, now = vault.open(getattr(old, name)), vault.open(getattr(new, name))
        if was != now:
            secrets[f"config.{name}"] = "set" if was is None else "removed" if now is None else "changed"
    changed = [*plain, *config, *secrets]
    if "config.secret" not in secrets and vault.open(old.previous_secret) != vault.open(new.previous_secret):
        changed.append("config.previous_secret")  # the same secret was set again, and the previous one no longer signs
    before = plain if old.only_app is not None else plain | config
    return {"changed": changed, **({"before": before} if before else {}), **({"secrets": secrets} if secrets else {})}


def owner_of(call: Call) -> HookOwner:
    """Return the repository or organization of the path, already checked by the authenticator."""
    caller, viewer = caller_of(call), viewer_of(actor_of(call))
    if caller.repository:
        return HookOwner(caller.repository.owner, caller.repository, viewer)
    assert caller.organization is not None, "the operation's rule names a repository or an organization"
    return HookOwner(caller.organization.account, viewer=viewer)


def hook_write(call: Call, tx: Transaction) -> HookWrite:
    services = call.services
    limit = services.settings.hooks_per_event
    return HookWrite(tx, actor_of(call), owner_of(call), services.vault, limit, call.public_base)


async def hook_of(call: Call, reader: Reader, hook_id: int) -> Hook:
    """Return the hook if the caller sees it. Raises `NotFound`."""
    return require_found(await queries.find_hook(reader, owner_of(call), hook_id, actor=actor_of(call)))


async def get_hook_counted(call: Call, tx: Transaction, hook_id: int) -> Hook:
    """Return the hook and count a manual ping, test or redelivery. Raises the errors of `deliveries.count_manual`."""
    hook = await hook_of(call, tx, hook_id)
    await deliveries.count_manual(tx, hook.id, manual_limit(call))
    return hook


def retries_of(call: Call, hook: Hook) -> int:
    own = hook.retries_allowed
    return call.services.settings.delivery_retries if own is None else own


def manual_limit(call: Call) -> int:
    return call.services.settings.manual_deliveries_per_minute


def audit_of_call(write: Write, action: str, target: str, **detail: object) -> None:
    owner = owner_of(write.call)
    entry = audit.AuditTarget(target, owner.account.id, owner.repository_id, detail)
    audit.record_all(write.tx, write.actor, action, [entry])


async def hooks_delete(write: Write, hook_id: int) -> None:
    """Delete a webhook."""
    await delete_hook(write.tx, write.actor, owner_of(write.call), hook_id)


async def hooks_ping(write: Write, hook_id: int) -> None:
    """Send a ping to a webhook."""
    call = write.call
    hook = await get_hook_counted(call, write.tx, hook_id)
    await send_ping(write.tx, write.actor, owner_of(call), hook, call.public_base)
    audit_of_call(write, "hook.ping", f"hook/{hook.id}")


async def deliveries_redeliver(write: Write, hook_id: int, delivery_id: int) -> EmptyObject:
    """Redeliver a delivery."""
    hook = await hook_of(write.call, write.tx, hook_id)
    await deliveries.redeliver(write.tx, hook.id, delivery_id, limit=manual_limit(write.call))
    audit_of_call(write, "delivery.redeliver", f"delivery/{delivery_id}", hook_id=hook.id)
    return EmptyObject()


async def redeliver_many(call: Call, hook_id: int, filters: Filters) -> redelivery.Redelivery:
    """Start a bulk redelivery and process its first batch. Raises `Invalid` while another one is running."""
    asked = {name: value for name, value in msgspec.structs.asdict(filters).items() if value is not None}

    async def step(tx: Transaction) -> redelivery.Redelivery:
        hook = await get_hook_counted(call, tx, hook_id)
        job_id = await redelivery.create_job(tx, hook.id, filters)
        audit_of_call(Write.for_call(call, tx), "delivery.redeliver_many", f"hook/{hook.id}", **asked)
        return await redelivery.find(tx, hook.id, job_id)

    return await redelivery.run_first_batch(call.database, await call.database.in_transaction(step))


async def send_sample(write: Write, hook_id: int, name: str, action: str | None) -> None:
    """Send the sample of an event to a single webhook, even if it is inactive or not subscribed to the event.

    Raises `Invalid` if the catalog has no such event.
    """
    hook = await hook_of(write.call, write.tx, hook_id)
    payload = samples.sample(name, action, around=False) if known(name) else {}
    publication = publishing.parse_publication({"event": name, "action": action, "payload": payload})
    await deliveries.count_manual(write.tx, hook.id, manual_limit(write.call))
    draft = publishing.draft_of(publication, owner_of(write.call), write.actor, write.call.public_base)
    await send_by_hand(write.tx, msgspec.structs.replace(draft, published=False), hook)  # the activity omits tests
    audit_of_call(write, "hook.test", f"hook/{hook.id}", event=name)
