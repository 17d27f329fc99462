"""`workhook serve`."""

from __future__ import annotations

import gc
from dataclasses import fields
from typing import Annotated

import click

from workhook.cli.common import Context, command
from workhook.cli.options import Flag
from workhook.core.config import Settings

_FIRST = ("host", "port", "data", "database_url", "delivery_allow_networks")
_OF_WORKERS = ("worker_listen",)
SETTINGS = (*_FIRST, *(each.name for each in fields(Settings) if each.name not in (*_FIRST, *_OF_WORKERS)))


@command(None, "serve", settings=SETTINGS, json=False, fast=True)
async def serve(
    context: Context,
    *,
    no_worker: Annotated[bool, Flag("Leave deliveries to `workhook worker`.")] = False,
) -> int:
    """Serve the API and, unless --no-worker, send deliveries, until SIGTERM.

    When it is ready it prints `workhook: listening on http://HOST:PORT`. On an empty database it first makes an owner,
    an organization and a project, and prints a link and a token for the owner, once.
    """
    gc.disable()  # nothing of what importing makes is garbage
    from workhook import process
    from workhook.cli.setup import welcome

    gc.enable()

    return await process.serve(context.settings, say=click.echo, work=not no_worker, welcome=welcome)
