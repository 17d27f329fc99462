"""`workhook serve` and `workhook worker`."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Annotated

import click

from workhook import process
from workhook.cli import setup
from workhook.cli.common import Context, command
from workhook.cli.error_messages import Misuse
from workhook.cli.lazy_imports import not_installed
from workhook.cli.options import Flag, Option
from workhook.core.config import Settings

WORKERS_MAX = 256
_FIRST = ("host", "port", "data", "database_url", "delivery_allow_networks")
_OF_WORKERS = ("worker_listen",)
SETTINGS = (*_FIRST, *(each.name for each in fields(Settings) if each.name not in (*_FIRST, *_OF_WORKERS)))
_OF_THE_API = ("host", "port", "api_rate_limit", "trust_proxy", "hooks_per_event", "manual_deliveries_per_minute")
WORKER_SETTINGS = (
    "worker_listen",
    "concurrency",
    *(each for each in SETTINGS if each not in (*_OF_THE_API, "concurrency")),
)


@contextmanager
def _loading() -> Iterator[None]:
    """Prepare for the first use of `process`, which imports the server."""
    gc.disable()  # imports create no garbage
    try:
        # Hide rich from structlog, which would load 5 MiB for colored exceptions that the log does not use.
        if "structlog" not in sys.modules:
            with not_installed("rich"):
                importlib.import_module("structlog")
        yield
    finally:
        gc.enable()


@command(None, "serve", settings=SETTINGS, json=False, fast=True)
async def serve(
    context: Context,
    *,
    no_worker: Annotated[bool, Flag("Do not deliver; leave that to `workhook worker`.")] = False,
    workers: Annotated[
        int, Option("N", "Number of processes that share the port; requires PostgreSQL.", between=(1, WORKERS_MAX))
    ] = 1,
) -> int:
    """Serve the API and, unless --no-worker is given, send deliveries, until SIGTERM.

    Prints `workhook: listening on http://HOST:PORT` when ready. On an empty database, it first creates an owner, an
    organization, and a project, and prints a link and a token for the owner once.
    """
    settings = context.settings
    if workers > 1 and settings.database_url is None:
        raise Misuse(
            "--workers needs PostgreSQL: a SQLite file has one writer, and more processes would only wait for it.",
            "Set WORKHOOK_DATABASE_URL, or omit --workers.",
        )
    with _loading():
        run = process.serve
    return await run(settings, say=click.echo, work=not no_worker, welcome=setup.welcome, processes=workers)


@command(None, "worker", settings=WORKER_SETTINGS, json=False, fast=True)
async def worker(context: Context) -> int:
    """Send deliveries until SIGTERM, without serving the API. Any number of workers share the work.

    With --listen, it serves /healthz, /readyz, and /metrics there, and prints `workhook: listening on http://HOST:PORT`.
    Prints `workhook: delivering` once it delivers.
    """
    with _loading():
        run = process.work
    return await run(context.settings, say=click.echo)
