"""`workhook worker`."""

from __future__ import annotations

import click

from workhook.cli.common import Context, command
from workhook.cli.serve import SETTINGS as SERVE_SETTINGS

_OF_THE_API = ("host", "port", "api_rate_limit", "trust_proxy", "hooks_per_event")
SETTINGS = (
    "worker_listen",
    "concurrency",
    *(each for each in SERVE_SETTINGS if each not in (*_OF_THE_API, "concurrency")),
)


@command(None, "worker", settings=SETTINGS, json=False, fast=True)
async def worker(context: Context) -> int:
    """Send deliveries, nothing else, until SIGTERM. Any number of workers share the work.

    With --listen it serves /healthz, /readyz and /metrics there, and prints `workhook: listening on http://HOST:PORT`.
    When it has begun to deliver it prints `workhook: delivering`.
    """
    from workhook import process

    return await process.work(context.settings, say=click.echo)
