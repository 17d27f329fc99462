"""`workhook migrate` and `workhook doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple
from urllib.parse import urlsplit

import typer

from workhook.cli.common import FAILED, Context, command
from workhook.cli.faults import explain
from workhook.core.config import Settings

FREE_BYTES_MIN = 500 * 1024 * 1024
LATE_MS = 60_000
CONNECT_TIMEOUT_S = 5.0


class Check(NamedTuple):
    """One thing that was looked at. `advice` is what to do about it, where something is wrong."""

    name: str
    ok: bool
    detail: str
    advice: str | None = None


async def migrate(context: Context) -> None:
    """Bring the database to the newest schema. Safe while an older version is running."""
    from workhook.core import log
    from workhook.storage import migrate as migrations

    log.configure("warning")
    done = await migrations.migrate(context.settings.sqlite_path, context.settings.database_url)
    data = {"migrated": done, "schema": migrations.HEAD}
    context.answer(data, f"{'migrated to' if done else 'nothing to do: it has'} schema {migrations.HEAD}")


async def doctor(context: Context) -> int:
    """Look at the data folder, the key, the database and the queue, and say what is wrong and what to do about it."""
    from workhook.core import log

    log.configure("error")
    checks = [each async for each in _checks(context.settings)]
    healthy = all(check.ok for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{'ok  ' if check.ok else 'BAD '} {check.name}: {check.detail}")
        lines += [f"     {check.advice}"] if check.advice and not check.ok else []
    context.answer({"ok": healthy, "checks": [check._asdict() for check in checks]}, "\n".join(lines))
    return 0 if healthy else FAILED


def register(app: typer.Typer) -> None:
    command(app, "migrate")(migrate)
    command(app, "doctor")(doctor)


async def _checks(settings: Settings) -> AsyncIterator[Check]:
    yield _folder(settings)
    yield _space(settings)
    yield _key(settings)
    database = await _database(settings)
    yield database
    if database.ok:
        yield await _waiting(settings)
    if settings.nats_url:
        yield await _nats(settings.nats_url)


def _folder(settings: Settings) -> Check:
    import os

    data = settings.data.absolute()
    if not data.is_dir():
        return Check("data folder", False, f"{data} is not there", "Start the server once, or give --data.")
    usable = os.access(data, os.R_OK | os.W_OK | os.X_OK)
    return Check("data folder", usable, str(data), "Give the user that runs Workhook the right to write there.")


def _space(settings: Settings) -> Check:
    import shutil

    try:
        free = shutil.disk_usage(settings.data).free
    except OSError as error:
        return Check("disk", False, str(error.strerror), "Give --data.")
    advice = "Make room, or keep deliveries for fewer days (WORKHOOK_RETENTION_DAYS)."
    return Check("disk", free >= FREE_BYTES_MIN, f"{free // 1024**2:,} MiB free", advice)


def _key(settings: Settings) -> Check:
    from workhook.core.vault import KEY_FILE, Vault

    if settings.secret_key:
        return Check("key", True, "from the settings")
    path = settings.data / KEY_FILE
    try:
        Vault(path.read_bytes().split())
        mode = path.stat().st_mode & 0o777
    except FileNotFoundError:
        return Check("key", True, "made at the first start")
    except (OSError, ValueError) as error:
        return Check(
            "key", False, f"{path}: {error}", "Put back the file from a backup: secrets are encrypted with it."
        )
    return Check("key", not mode & 0o077, f"{path}, mode {mode:04o}", f"Others can read it: chmod 600 {path}")


async def _database(settings: Settings) -> Check:
    """Looks only: what is not there is not made."""
    from workhook.storage import migrate as migrations

    kind = "SQLite" if settings.sqlite_path else "PostgreSQL"
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            revision = await _revision(settings)
    except Exception as error:
        said = explain(error)
        if said is None:
            raise
        return Check("database", False, f"{kind}: {said[0]}", "Check --data and --database-url, and that it runs.")
    if revision is None:
        return Check("database", False, f"{kind} without a schema", "workhook migrate")
    if revision not in migrations.known_revisions():
        return Check("database", False, f"{kind}, schema {revision} of a newer version", "Install the newer Workhook.")
    return Check("database", revision == migrations.HEAD, f"{kind}, schema {revision}", "workhook migrate")


async def _revision(settings: Settings) -> str | None:
    from workhook.storage import dialects
    from workhook.storage import migrate as migrations

    if settings.sqlite_path is not None:
        return await asyncio.to_thread(migrations.sqlite_revision, settings.sqlite_path)
    import asyncpg

    connection = await asyncpg.connect(**dialects.connect_options(settings.database_url or ""))
    try:
        exists = await connection.fetchval("SELECT to_regclass('alembic_version') IS NOT NULL")
        found = await connection.fetchval("SELECT version_num FROM alembic_version") if exists else None
        return None if found is None else str(found)
    finally:
        await connection.close()


async def _waiting(settings: Settings) -> Check:
    from workhook import bootstrap
    from workhook.cli import queries
    from workhook.core.clock import now_ms

    async with bootstrap.open_services(settings) as services:
        number, oldest = await queries.waiting(services.database)
    late_ms = max(0, now_ms() - oldest) if oldest is not None else 0
    detail = f"{number} waiting" + (f", the oldest late by {late_ms // 1000} s" if late_ms > LATE_MS else "")
    advice = "Is a server or a worker running? If so, raise WORKHOOK_CONCURRENCY or start more workers."
    return Check("deliveries", late_ms <= LATE_MS, detail, advice)


async def _nats(url: str) -> Check:
    parts = urlsplit(url if "//" in url else f"//{url}")
    address = f"{parts.hostname}:{parts.port or 4222}"
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 4222)
            greeting = await reader.readline()
            writer.close()
    except (OSError, TimeoutError) as error:
        return Check("NATS", False, f"{address}: {error or 'no answer'}", "Check --nats-url, and that it runs.")
    return Check("NATS", greeting.startswith(b"INFO "), address, "Something else than NATS answers there.")
