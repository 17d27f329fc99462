"""The whole command, put together of its groups. Importing it is cheap: each command imports what it needs."""

from __future__ import annotations

from typing import Annotated

import typer

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

app = new_app("Work management in which every change is a signed, stored, replayable webhook.")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"workhook {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Work management in which every change is a signed, stored, replayable webhook."""


serve.register(app)
worker.register(app)
setup.register(app)
for name, group in (
    ("user", users),
    ("member", members),
    ("collaborator", collaborators),
    ("token", tokens),
    ("oauth-app", oauth_apps),
    ("app", apps),
    ("event", events),
    ("git-hook", git_hook),
    ("deliveries", deliveries),
    ("import", imports),
    ("secrets", secrets),
    ("audit", audit),
    ("database", copying),
):
    app.add_typer(group.app, name=name)
database.register(app)
bench.register(app)
