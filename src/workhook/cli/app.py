"""The whole command, put together of its groups. Importing it is cheap: each command imports what it needs."""

from __future__ import annotations

from typing import Annotated

import typer

from workhook import __version__
from workhook.cli import (
    collaborators,
    database,
    deliveries,
    events,
    git_hook,
    imports,
    members,
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
    ("event", events),
    ("git-hook", git_hook),
    ("deliveries", deliveries),
    ("import", imports),
):
    app.add_typer(group.app, name=name)
database.register(app)
