"""`workhook completion`."""

from __future__ import annotations

from typing import Annotated, Literal

import click

from workhook.cli.common import Context, command
from workhook.cli.options import Argument

_VARIABLE = "_WORKHOOK_COMPLETE"  # Click's, for a program of this name


@command(None, "completion", settings=(), json=False)
async def completion(
    context: Context,
    *,
    shell: Annotated[Literal["bash", "zsh", "fish"], Argument("bash|zsh|fish", "The shell that reads the script.")],
) -> None:
    """Print a script with which a shell completes commands, options and their values.

    In ~/.bashrc: eval "$(workhook completion bash)". The script asks the command itself, so it stays right after an
    upgrade.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "Click has one for each"
    whole = click.get_current_context().find_root().command
    click.echo(kind(whole, {}, "workhook", _VARIABLE).source().strip())
