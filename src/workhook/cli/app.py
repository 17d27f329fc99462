"""The whole command, put together of its groups. Importing it is cheap: each command imports what it needs."""

from __future__ import annotations

import click

from workhook import __version__
from workhook.cli import (
    apps,
    audit,
    bench,
    collaborators,
    copying,
    database,
    deliveries,
    events,
    git_hook,
    imports,
    members,
    oauth_apps,
    secrets,
    serve,
    setup,
    tokens,
    users,
    worker,
)
from workhook.cli.common import new_app

GROUPS = {
    "user": users,
    "member": members,
    "collaborator": collaborators,
    "token": tokens,
    "oauth-app": oauth_apps,
    "app": apps,
    "event": events,
    "git-hook": git_hook,
    "deliveries": deliveries,
    "import": imports,
    "secrets": secrets,
    "audit": audit,
    "database": copying,
}

app = new_app("Work management in which every change is a signed, stored, replayable webhook.")
click.version_option(__version__, message="workhook %(version)s", help="Print the version and exit.")(app)
for command in (serve.serve, worker.worker, setup.setup, database.migrate, database.doctor, bench.bench):
    app.add_command(command)
for name, group in GROUPS.items():
    app.add_command(group.app, name)
