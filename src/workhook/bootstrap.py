"""Opens the database and the other services, and wires the areas together. Nothing else chooses the database.

Imports little, so that commands that need only the database start without waiting for a server's libraries.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from workhook.core.config import Settings
from workhook.core.urls import OwnAddress
from workhook.core.vault import Vault, open_vault
from workhook.events import outbox
from workhook.hooks.fan_out import fan_out
from workhook.hooks.publishing import PushFollower, push_followers
from workhook.hooks.removal import forget_app, forget_repository, rights_lost, uninstalled
from workhook.http.calls import Call, Place, RemainingRights, Services
from workhook.identity import audit, removal
from workhook.identity.mail import recipients
from workhook.identity.removal import Loss
from workhook.identity.schemas import Actor, Repository
from workhook.storage import Database, Transaction
from workhook.storage.blobs import FOLDER, Blobs, FolderBlobs
from workhook.storage.dialects import upsert
from workhook.storage.metadata import key_check
from workhook.storage.migrate import migrate
from workhook.work.kernel import questions

_key_check = sa.select(key_check.c.sealed)
_set_key_check = upsert(key_check).values(id=sa.literal(1, sa.Integer), sealed=sa.bindparam("sealed"))
_set_key_check = _set_key_check.on_conflict_do_nothing()


@asynccontextmanager
async def open_services(settings: Settings, *, serving: bool = False) -> AsyncIterator[Services]:
    """Migrate and open the database. With `serving`, also listen for changes by other processes.

    Raises `Unavailable` if the database cannot be reached, and `NewerSchema` if its schema is newer.
    """
    questions.answer_with(_register_answers)
    outbox.fan_outs.subscribe(audit.of_events)  # first, because its entry is sent with the query of the next one
    outbox.fan_outs.subscribe(fan_out)
    watcher: outbox.Watcher | None = None
    if settings.organization_max_mb or settings.organization_max_rows:
        from workhook.work.kernel.quota import watch

        watcher = watch
        outbox.watchers.subscribe(watch)
    stop_mail = recipients.start_sending() if settings.smtp_url is not None else lambda: None
    removal.repositories.subscribe(forget_repository)
    removal.apps.subscribe(forget_app)
    # Invitations first, so that one being accepted has taken effect before the rest runs.
    removal.losses.subscribe(removal.end_invitations)
    # Timers before webhooks: starting a timer also locks the account before the webhooks it notifies.
    removal.losses.subscribe(_end_work)
    removal.losses.subscribe(rights_lost)
    removal.installations.subscribe(uninstalled)
    push_followers.subscribe(_CLOSING)
    database = await _open_database(settings, serving=serving)
    blobs = open_blobs(settings.data, settings.files_url)
    closing: list[Callable[[], Awaitable[None]]] = []
    own = OwnAddress(settings.base_url)
    try:
        services = Services(
            settings=settings,
            database=database,
            vault=await _open_vault(settings, database),
            blobs=blobs,
            check_url=lambda url: None if own.is_receiver(url) else _check_url(url, settings),
            remaining_rights=_standing,
            own=own,
            closing=closing,
        )
        removal.links_start_with(services.base)
        yield services
    finally:
        if watcher is not None and watcher in outbox.watchers:
            outbox.watchers.remove(watcher)
        stop_mail()
        for close in closing:
            await close()
        blobs.close()
        await database.close()


def open_blobs(data: Path, url: str | None) -> Blobs:
    """Open the file store: the folder `files` in the data folder, or `s3://BUCKET/PREFIX`."""
    if url is None:
        return FolderBlobs(data / FOLDER)
    from workhook.storage.blobs_s3 import S3Blobs

    return S3Blobs(data / FOLDER, url)


async def _open_vault(settings: Settings, database: Database) -> Vault:
    """Open the vault with the key of this database. Raises `VaultError` if the key is missing or a different one."""
    row = await database.fetch_one(_key_check)
    vault = open_vault(settings.data, settings.secret_key, make=row is None)
    if row is None:
        async with database.transaction() as tx:
            await tx.execute(_set_key_check, {"sealed": vault.seal("workhook")})
    row = await database.fetch_one(_key_check)  # another process may have been first, or has just changed the key
    vault.open(row["sealed"] if row else None)
    return vault


async def _open_database(settings: Settings, *, serving: bool) -> Database:
    path = settings.sqlite_path
    if path is not None:
        from workhook.storage.sqlite import SqliteDatabase

        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        await migrate(path, None, import_tables)
        return await SqliteDatabase.open(path, watch=serving)
    from workhook.storage.postgres import PostgresDatabase

    assert settings.database_url is not None, "sqlite_path is None only for another database"
    await migrate(None, settings.migration_url, import_tables)
    return await PostgresDatabase.open(
        settings.database_url,
        session_url=settings.database_session_url,
        connections=settings.database_connections,
        listen=serving,
    )


def import_tables() -> None:
    """Import every module with tables. Takes a second, so it is done only for a new database."""
    from workhook import asgi

    _ = asgi.operations  # lazily imported modules are loaded on access


def _register_answers() -> None:
    from workhook.work import answers

    answers.register()


async def _end_work(tx: Transaction, loss: Loss) -> None:
    from workhook.work.money.checkouts import actions as checkouts
    from workhook.work.time.timesheets import timers

    await checkouts.rights_lost(tx, loss)
    await timers.rights_lost(tx, loss)


def _closes_something(payload: Mapping[str, Any], repository: Repository) -> bool:
    from workhook.work.board.pushes import closes_any_task

    return closes_any_task(payload, repository)


async def _close_tasks(
    tx: Transaction, repository: Repository, payload: Mapping[str, Any], pusher: Actor | None, base: str
) -> None:
    from workhook.work.board.pushes import close_tasks

    await close_tasks(tx, repository, payload, pusher, base)


_CLOSING = PushFollower(_closes_something, _close_tasks)


async def _standing(call: Call, rights: Mapping[Place, int]) -> RemainingRights:
    from workhook.work.kernel.access import compare_rights

    return await compare_rights(call, rights)


def _check_url(url: str, settings: Settings) -> str | None:
    from workhook.delivery.address_policy import AddressPolicy, check_url

    return check_url(url, AddressPolicy(settings.delivery_allow_networks))
