"""Connects a Git repository: its configuration, and a `post-receive` hook that still runs an existing hook."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from workhook.git_push import git
from workhook.git_push.hook import MODULE_FLAGS
from workhook.git_push.spool import HookFolder, write_durably

MARK = "# Written by `workhook git-hook install`"
CHAINED = "post-receive.before-workhook"

_REPOSITORY = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")

_SCRIPT = """\
#!/bin/sh
{mark}: changes here are lost when it runs again.
# Records the push for Workhook, then runs the hook that was here before, with the same input and its exit status.
# No failure of Workhook may fail or delay the push, not even a missing interpreter.
updates=$(cat)
if [ -d "${{GIT_DIR:-.}}/workhook" ] || [ -f "${{GIT_DIR:-.}}/commondir" ]; then
    said=$(printf '%s\\n' "$updates" | {command} post-receive 2>&1) ||
        said='workhook: the hook cannot run (is its Python gone? install it again), this push sends no event'
    [ -z "$said" ] || printf '%s\\n' "$said" >&2
fi
[ -x "${{0%/*}}/{chained}" ] || exit 0
printf '%s\\n' "$updates" | "${{0%/*}}/{chained}" "$@"
"""


class InstallError(Exception):
    """The reason why the hook cannot be installed, worded for the user who installs it."""


class Installed(NamedTuple):
    """The resulting paths. `chained` is the previous hook, which still runs, or None."""

    git_dir: Path
    config: Path
    hook: Path
    chained: Path | None


def install(
    git_dir: Path, repository: str, *, data_dir: Path, token: str, url: str | None, python: str = sys.executable
) -> Installed:
    """Write `GIT_DIR/workhook/config.json` and the `post-receive` hook. Running it again only updates them.

    `git_dir`: a bare repository, a `.git` folder or a work tree. `repository`: `owner/name` on the server. `url`: the
    server's URL, or None to look it up in `data_dir` on each send. `python`: an interpreter with `workhook` installed.
    Raises `InstallError` or `OSError`.
    """
    if not _REPOSITORY.fullmatch(repository):
        raise InstallError(f"{repository!r} is not OWNER/NAME")
    if not token or not token.isascii() or not token.isprintable():
        raise InstallError("the token is empty or has invalid characters")
    if url is not None and not url.startswith(("http://", "https://")):
        raise InstallError(f"{url!r} does not start with http:// or https://")
    folder = HookFolder(find_git_dir(git_dir))
    hooks = _hooks_dir(folder.git_dir)
    _check_python(python, folder.owner())
    folder.create()
    config = {"version": 1, "repository": repository, "data_dir": os.path.abspath(data_dir), "token": token, "url": url}
    write_durably(folder.config, json.dumps(config, indent=2).encode() + b"\n")
    folder.adopt()
    hook, chained = _write_hook(hooks, python)
    return Installed(folder.git_dir, folder.config, hook, chained)


def find_git_dir(path: Path) -> Path:
    """Return the Git directory at `path` or of the work tree there, not of its parents. Raises `InstallError`."""
    for candidate in (path, path / ".git"):
        try:
            output = git.run(Path(os.path.abspath(candidate)), "rev-parse", "--absolute-git-dir")
        except git.GitError:
            continue
        except git.GitMissing as error:
            raise InstallError(str(error)) from error
        return Path(os.fsdecode(output.rstrip(b"\n")))
    raise InstallError(f"{path} is neither a Git repository nor the top of a work tree")


def _hooks_dir(git_dir: Path) -> Path:
    """Return Git's hooks folder. Resolves a relative `core.hooksPath` against the Git directory, where hooks run."""
    try:
        output = git.run(git_dir, "config", "--type=path", "--get", "core.hooksPath")
    except git.GitError:
        output = b""  # not set
    path = git_dir / (os.fsdecode(output.rstrip(b"\n")) or "hooks")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InstallError(f"hooks cannot be put into {path} (core.hooksPath): {error.strerror}") from error
    return path


def _check_python(python: str, owner: tuple[int, int] | None) -> None:
    """Raise `InstallError` unless `python` works. `owner`: the user and group that run the hook if root installs it."""
    identity: dict[str, Any] = {"user": owner[0], "group": owner[1], "extra_groups": []} if owner else {}
    by = f" by the repository's owner (user {owner[0]})" if owner else ""
    command = [python, *MODULE_FLAGS, "check"]
    try:
        done = subprocess.run(command, capture_output=True, cwd="/", timeout=60, **identity)  # noqa: S603 (the caller's own interpreter)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(f"{python} cannot be run{by}: {error}") from error
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip()[-300:]
        raise InstallError(f"{python} cannot import workhook{f' when run{by}' if by else ''}: {reason}")


def _write_hook(hooks: Path, python: str) -> tuple[Path, Path | None]:
    hook, chained = hooks / "post-receive", hooks / CHAINED
    command = shlex.join([os.path.abspath(python), *MODULE_FLAGS])
    script = _SCRIPT.format(mark=MARK, command=command, chained=CHAINED).encode("utf-8", "surrogateescape")
    temporary = hooks / f".post-receive.{os.getpid()}.tmp"
    try:
        temporary.write_bytes(script)
        temporary.chmod(0o755)
        if os.path.lexists(hook) and not _is_ours(hook):
            _keep(chained)
            hook.rename(chained)
        temporary.replace(hook)
    finally:
        temporary.unlink(missing_ok=True)
    return hook, chained if os.path.lexists(chained) else None


def _is_ours(hook: Path) -> bool:
    try:
        return MARK.encode() in hook.read_bytes()[:4096].split(b"\n")[1][:200]
    except (OSError, IndexError):
        return False


def _keep(path: Path) -> None:
    """Move an older chained hook out of the way without losing it."""
    if not os.path.lexists(path):
        return
    at = next(at for at in range(1, 10_000) if not os.path.lexists(f"{path}.{at}"))
    path.rename(f"{path}.{at}")
