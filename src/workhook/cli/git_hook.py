"""`workhook git-hook`: pushes to a Git repository as `push` events. The work is done in `git_push`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workhook.cli.common import Context, command, find_repository, find_user, new_app
from workhook.cli.faults import CliError

if TYPE_CHECKING:
    from workhook.http.calls import Services
    from workhook.identity.schemas import Repository

app = new_app("Pushes to a Git repository as push events.")

SCOPE = "write:repo_hook"  # the least that may publish

_GitDir = Annotated[Path, typer.Option(metavar="DIR", help="A bare repository, a .git folder or a work tree.")]


@command(app, "install")
async def install(
    context: Context,
    *,
    git_dir: _GitDir,
    repository: Annotated[str, typer.Option(metavar="OWNER/NAME", help="Where the events are published.")],
    user: Annotated[
        str | None, typer.Option(metavar="LOGIN", help="Who publishes; without it an owner of the repository.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="A token to publish with; without it one is issued.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="The server; without it the one that uses the data folder.")
    ] = None,
) -> None:
    """Install a post-receive hook that publishes each push. A slow or absent server never holds a push back.

    A hook that is there already goes on to run. Installing again updates what was installed and keeps its token.
    """
    from workhook.cli.git_push import install as git_push

    where = git_push.find_git_dir(git_dir)
    data_dir = context.settings.data.absolute()
    full_name = repository
    if token is None:
        async with context.services() as services:
            found = await find_repository(services.database, repository)
            full_name = found.full_name
            token = await _kept_token(services, where, found, user) or await _new_token(services, found, user)
    address = url or context.settings.base_url
    done = git_push.install(where, full_name, data_dir=data_dir, token=token, url=address)
    chained = str(done.chained) if done.chained else None
    data = {"git_dir": str(done.git_dir), "hook": str(done.hook), "repository": full_name, "chained": chained}
    more = f"; it runs {done.chained.name} afterwards" if done.chained else ""
    context.answer(data, f"installed {done.hook}{more}")


async def _kept_token(services: Services, git_dir: Path, repository: Repository, user: str | None) -> str | None:
    """What an earlier installation publishes with, if that still may."""
    from workhook.cli.git_push.folder import ConfigError, Folder, load_config
    from workhook.core.errors import Unauthenticated
    from workhook.identity import guard, policy, queries

    try:
        token = load_config(Folder(git_dir)).token
        actor = await guard.authenticate(services.database, f"Bearer {token}", None)
    except (ConfigError, Unauthenticated):
        return None
    if actor is None or (user is not None and queries.key_of(user) != queries.key_of(actor.user.login)):
        return None
    rule = policy.RULES["repository.publish"]
    seen = await queries.find_repository_by_id(services.database, repository.id, actor.user.id)
    may = seen is not None and seen.role in ("write", "admin")
    return token if may and policy.expand(actor.scopes) & set(rule.scopes) else None


async def _new_token(services: Services, repository: Repository, user: str | None) -> str:
    from workhook.cli import queries
    from workhook.identity import actions
    from workhook.identity.queries import find_repository_by_id

    async with services.database.transaction() as tx:
        who = await find_user(tx, user) if user else await queries.an_owner(tx, repository.owner)
        if who is None:
            raise CliError(f"{repository.owner.login} has no owner who could publish.", "Name a user with --user.")
        seen = await find_repository_by_id(tx, repository.id, who.id)
        if seen is None or seen.role not in ("write", "admin"):
            remedy = f"workhook collaborator add --repository {repository.full_name} --user {who.login} --role write"
            raise CliError(f"{who.login} may not publish in {repository.full_name}.", remedy)
        note = f"git-hook of {repository.full_name}"
        return (await actions.issue_token(tx, who, [SCOPE], note=note)).token


@app.command("post-receive")
def post_receive() -> None:
    """What Git runs after a push: record it, start the sender, return. Reads BEFORE AFTER REF lines."""
    from workhook.cli.git_push.__main__ import main

    sys.exit(main(["post-receive"]))


@command(app, "send", settings=())
async def send(context: Context, *, git_dir: _GitDir) -> int:
    """Publish now what waits beside a repository."""
    from workhook.cli.git_push.install import find_git_dir
    from workhook.cli.git_push.sender import send_pending

    report = send_pending(find_git_dir(git_dir))
    sentence = f"sent {report.sent}, refused {report.rejected}, damaged {report.corrupt}, waiting {report.pending}"
    if report.busy:
        sentence += "; another sender is at work"
    context.answer(report._asdict(), f"{sentence}: {report.stopped}" if report.stopped else sentence)
    return 1 if report.stopped else 0
