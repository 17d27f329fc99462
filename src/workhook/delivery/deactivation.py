"""Turning a hook off because of what its receiver does."""

from __future__ import annotations

from workhook.hooks import actions
from workhook.hooks import queries as hook_queries
from workhook.hooks.records import Place
from workhook.http.calls import Services
from workhook.identity import queries as identity_queries


async def deactivate(services: Services, hook_id: int, reason: str) -> None:
    """In one transaction: the hook is off, what waits is dropped, an audit entry and a `hook` event say why."""
    base = services.settings.base_url or f"http://{services.settings.host}:{services.settings.port}"
    async with services.database.transaction() as tx:
        found = await hook_queries.hooks_by_id(tx, [hook_id])
        if not found or not found[0].active:
            return
        hook = found[0]
        repository = None
        if hook.repository_id is not None:
            repository = await identity_queries.find_repository_by_id(tx, hook.repository_id)
        account = await identity_queries.find_account_by_id(tx, hook.account_id)
        if account is None or (repository is None and hook.repository_id is not None):
            return
        await actions.deactivate(tx, Place(account, repository), hook, reason, base)
