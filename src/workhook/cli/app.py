"""The complete command, assembled from its groups. Importing it is cheap, because commands import what they need."""

from __future__ import annotations

from typing import Annotated, Literal

import click

from workhook.cli import (
    apps,
    audit,
    backups,
    database,
    deliveries,
    doctor,
    git_hook,
    imports,
    listen,
    organizations,
    secrets,
    serve,
    setup,
    tokens,
    users,
)
from workhook.cli.common import Context, command, new_app
from workhook.cli.options import Argument

GROUPS = {
    "user": users.app,
    "member": organizations.members,
    "collaborator": organizations.collaborators,
    "token": tokens.app,
    "oauth-app": apps.oauth_app,
    "app": apps.app,
    "event": deliveries.event_app,
    "git-hook": git_hook.app,
    "deliveries": deliveries.app,
    "import": imports.app,
    "mail": doctor.mail,
    "secrets": secrets.app,
    "audit": audit.app,
    "database": database.app,
    "organization": organizations.app,
}


def _print_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from workhook import __version__  # a checkout runs git, which no other command waits for

        click.echo(f"workhook {__version__}")
        context.exit()


_VARIABLE = "_WORKHOOK_COMPLETE"  # Click's variable for a program of this name


@command(None, "completion", settings=(), json=False)
async def completion(
    context: Context,
    *,
    shell: Annotated[Literal["bash", "zsh", "fish"], Argument("bash|zsh|fish", "Shell to print the script for.")],
) -> None:
    """Print a script for shell completion of commands, options, and their values.

    In ~/.bashrc: eval "$(workhook completion bash)". The script queries the command itself, so it remains correct after
    an upgrade.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "Click has one for each"
    whole = click.get_current_context().find_root().command
    click.echo(kind(whole, {}, "workhook", _VARIABLE).source().strip())


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
for each in (
    serve.serve,
    serve.worker,
    setup.setup,
    database.migrate,
    backups.backup,
    backups.restore,
    doctor.doctor,
    listen.listen,
    completion,
):
    app.add_command(each)
for name, group in GROUPS.items():
    app.add_command(group, name)
