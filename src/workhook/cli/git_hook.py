"""`workhook git-hook`: publishes pushes to a Git repository as `push` events. Implemented in `git_push`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from workhook.cli import queries as cli_queries
from workhook.cli.common import Context, command, get_enabled_user, get_repository, new_app
from workhook.cli.error_messages import FAILED, CliError, Misuse
from workhook.cli.options import Option
from workhook.cli.output import complain
from workhook.core import errors
from workhook.git_push import install as git_push
from workhook.git_push import sender, spool
from workhook.identity import policy, queries
from workhook.identity.tokens import issue, lookup

if TYPE_CHECKING:
    from workhook.http.calls import Services
    from workhook.identity.schemas import Repository

app = new_app("Publish pushes to a Git repository as push events.")

SCOPE = "write:repo_hook"  # the least privilege that may publish

_GitDir = Annotated[Path, Option("DIR", "A bare repository, a .git folder, or a working tree.")]


@command(app, "install")
async def install(
    context: Context,
    *,
    git_dir: _GitDir,
    repository: Annotated[str, Option("OWNER/NAME", "Repository to publish events in.")],
    user: Annotated[str | None, Option("LOGIN", "User to publish as. Default: an owner of the repository.")] = None,
    token: Annotated[str | None, Option("TOKEN", "Token to publish with. Default: create one.")] = None,
    url: Annotated[
        str | None,
        Option("URL", "Address of the server. Default: base_url, or the server that uses the data folder."),
    ] = None,
) -> None:
    """Install a post-receive hook that publishes each push. A slow or unreachable server never delays a push.

    An existing post-receive hook still runs after this one. Installing again updates the installation and keeps its
    token.
    """
    where = git_push.find_git_dir(git_dir)
    data_dir = context.settings.data.absolute()
    full_name = repository
    if token is not None and issue.kind_of(token) is None:  # a token contains a checksum
        raise Misuse(
            "--token is not a token: it is mistyped or incomplete.", "Create one with `workhook token create`."
        )
    path = context.settings.sqlite_path
    has_database = path is None or path.exists()
    # Tokens of another server are not in this database. Without a database, only the format can be checked.
    if token is None or (url is None and has_database):
        async with context.services() as services:
            found = await get_repository(services.database, repository)
            full_name = found.full_name
            if token is None:
                token = await _kept_token(services, where, found, user) or await _new_token(services, found, user)
            elif await _publisher(services, token, found) is None:
                remedy = f"It must be valid, have the scope {SCOPE} or repo, and belong to a user with write access."
                raise CliError(f"the token is not allowed to publish in {full_name}.", remedy)
    address = url or context.settings.base_url
    done = git_push.install(where, full_name, data_dir=data_dir, token=token, url=address)
    chained = str(done.chained) if done.chained else None
    data = {"git_dir": str(done.git_dir), "hook": str(done.hook), "repository": full_name, "chained": chained}
    more = f"; it runs {done.chained.name} afterwards" if done.chained else ""
    context.print_result(data, f"installed {done.hook}{more}")


async def _kept_token(services: Services, git_dir: Path, repository: Repository, user: str | None) -> str | None:
    try:
        token = spool.load_config(spool.HookFolder(git_dir)).token
    except spool.ConfigError:
        return None
    publisher = await _publisher(services, token, repository)
    return token if publisher and (user is None or queries.key_of(user) == queries.key_of(publisher)) else None


async def _publisher(services: Services, token: str, repository: Repository) -> str | None:
    """Return the login of the token's user, or None if the token is invalid or may not publish there."""
    import msgspec

    rule = policy.RULES["repository.publish"]
    try:
        found = await lookup.find_actor(services.database, token)
        if found is None:
            return None
        actor = msgspec.structs.replace(found, need=rule.permission)
        seen = await queries.find_repository_by_id(services.database, repository.id, actor.user.id)
        policy.check_repository(seen, rule, actor)
        policy.check_token(actor, rule)
    except errors.Problem:
        return None
    return actor.user.login


async def _new_token(services: Services, repository: Repository, user: str | None) -> str:
    async with services.database.transaction() as tx:
        who = await get_enabled_user(tx, user) if user else await cli_queries.an_owner(tx, repository.owner)
        if who is None:
            raise CliError(f"{repository.owner.login} has no owner who could publish.", "Name a user with --user.")
        seen = await queries.find_repository_by_id(tx, repository.id, who.id)
        if seen is None or seen.role not in ("write", "admin"):
            place = repository.full_name
            remedy = f"Run `workhook collaborator add --repository {place} --user {who.login} --role write`."
            raise CliError(f"{who.login} is not allowed to publish in {repository.full_name}.", remedy)
        note = f"git-hook of {repository.full_name}"
        # Limited to the repository. Includes access to its work, so that commits can complete tasks.
        issued = await issue.issue(
            tx, issue.FINE_GRAINED, who.id, permissions={"repository_hooks": "write", "work": "write"},
            account_id=repository.owner.id, repository_ids=[repository.id], note=note,
        )  # fmt: skip
        return issued.token


@app.command("post-receive")
def post_receive() -> None:
    """Record a push, start the sender and return. Run by Git after a push; reads BEFORE AFTER REF lines."""
    from workhook.git_push.__main__ import main

    sys.exit(main(["post-receive"]))


@command(app, "send", settings=())
async def send(context: Context, *, git_dir: _GitDir) -> int:
    """Publish the recorded pushes of a repository now."""
    where = git_push.find_git_dir(git_dir)
    if not spool.HookFolder(where).config.exists():
        raise CliError(f"no hook is installed in {where}.", "Run `workhook git-hook install`.")
    try:
        report = sender.send_pending(where)
    finally:
        spool.HookFolder(where).adopt()
    stopped = report.stopped
    if report.busy and report.pending:
        stopped = _unreachable(where)  # the other sender is waiting for the server but does not report it
    sentence = f"sent {report.sent}, rejected {report.rejected}, damaged {report.corrupt}, waiting {report.pending}"
    if report.busy:
        sentence += "; another sender is running"
    context.print_result({**report._asdict(), "stopped": stopped}, sentence)
    if stopped is None:
        return 0
    kept = "Waiting pushes are kept and sent with the next push, or when you rerun this command."
    complain([f"{stopped.rstrip('.')}.", kept])
    return FAILED


def _unreachable(git_dir: Path) -> str | None:
    import socket
    from urllib.parse import urlsplit

    try:
        url = spool.server_url(spool.load_config(spool.HookFolder(git_dir)))
    except spool.ConfigError as error:
        return str(error)
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), sender.TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        return f"{url} does not answer: {error}"
    return None
