"""Turning a hook off because of what its receiver does."""

from __future__ import annotations

from workhook.hooks import actions
from workhook.hooks import queries as hook_queries
from workhook.hooks.records import Hook, HookOwner
from workhook.http.calls import Services
from workhook.identity import queries as identity_queries


async def deactivate(services: Services, seen: Hook, reason: str) -> None:
    """In one transaction: the hook is off, what waits is dropped, an audit entry and a `hook` event say why.

    `seen`: the hook whose receiver failed. If it was changed since, the failure says nothing about what it is now, and
    nothing is done.
    """
    async with services.database.transaction() as tx:
        repository = None
        if seen.repository_id is not None:
            repository = await identity_queries.find_repository_by_id(tx, seen.repository_id)
        account = await identity_queries.find_account_by_id(tx, seen.account_id)
        if account is None or (repository is None and seen.repository_id is not None):
            return
        place = HookOwner(account, repository)
        hook = await hook_queries.find_hook(tx, place, seen.id, for_update=True)
        if hook is not None and hook.active and hook.version == seen.version:
            await actions.deactivate(tx, place, hook, reason, services.base)
