"""The whole command, put together of its groups. Importing it is cheap: each command imports what it needs."""

from __future__ import annotations

import click

from workhook.cli import (
    apps,
    audit,
    backups,
    completion,
    copying,
    database,
    deliveries,
    events,
    git_hook,
    imports,
    installations,
    listen,
    mail,
    members,
    organizations,
    secrets,
    serve,
    setup,
    tokens,
    users,
)
from workhook.cli.common import new_app

GROUPS = {
    "user": users.app,
    "member": members.app,
    "collaborator": members.collaborators,
    "token": tokens.app,
    "oauth-app": apps.oauth_app,
    "app": installations.app,
    "event": events.app,
    "git-hook": git_hook.app,
    "deliveries": deliveries.app,
    "import": imports.app,
    "mail": mail.app,
    "secrets": secrets.app,
    "audit": audit.app,
    "database": copying.app,
    "organization": organizations.app,
}


def _print_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from workhook import __version__  # a checkout asks git, for which no other command waits

        click.echo(f"workhook {__version__}")
        context.exit()


app = new_app("Work management in which every change is a signed, stored, replayable webhook.")
app.params.append(
    click.Option(
        ["--version"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_print_version,
        help="Print the version and exit.",
    )
)
for command in (
    serve.serve,
    serve.worker,
    setup.setup,
    database.migrate,
    backups.backup,
    backups.restore,
    database.doctor,
    listen.listen,
    completion.completion,
):
    app.add_command(command)
for name, group in GROUPS.items():
    app.add_command(group, name)
