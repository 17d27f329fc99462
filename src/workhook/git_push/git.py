"""Runs `git` as a child of a hook, in a cleaned-up environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TIMEOUT_S = 300  # per command, so a repository on a hanging disk does not block the queue forever

_KEPT = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"})


class GitError(Exception):
    """A command failed: its objects are gone, the repository is damaged, or it timed out."""


class GitMissing(Exception):
    """`git` cannot be started. The queue waits until it can."""


def child_env() -> dict[str, str]:
    """Return the environment without the variables that Git set for the hook.

    `GIT_DIR` would be relative to another folder, `GIT_QUARANTINE_PATH` and `GIT_OBJECT_DIRECTORY` may name a
    quarantine that no longer exists, and `GIT_TRACE` would write into the output. Replacement objects are disabled
    because a payload names the commits that were pushed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
    return kept | {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
    }


def run(git_dir: Path, *arguments: str, stdin: bytes = b"", timeout_s: float = TIMEOUT_S) -> bytes:
    """Return the standard output of one command. Raises `GitError` or `GitMissing`."""
    command = ["git", f"--git-dir={git_dir}", *arguments]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, env=child_env(), cwd="/", timeout=timeout_s)  # noqa: S603 (no shell, no words of a pusher)
    except subprocess.TimeoutExpired as error:
        raise GitError(f"git {arguments[0]} took longer than {timeout_s} s") from error
    except OSError as error:
        raise GitMissing(f"git cannot be started: {error}") from error
    if done.returncode:
        output = done.stderr.decode("utf-8", "replace").strip()[-300:]
        raise GitError(f"git {arguments[0]} ended with {done.returncode}: {output}")
    return done.stdout


def branches_and_tags(git_dir: Path, timeout_s: float = TIMEOUT_S) -> tuple[tuple[str, str], ...]:
    """Return object ID and name of each ref that a push can report. Raises the errors of `run`."""
    options = ("--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
    output = run(git_dir, "for-each-ref", *options, timeout_s=timeout_s).decode("utf-8", "surrogateescape")
    rows = (line.partition(" ") for line in output.split("\n") if line)
    return tuple((oid, ref) for oid, _, ref in rows)


def is_zero(oid: str) -> bool:
    """Return whether `oid` (40 or 64 digits) is Git's notation for "no object"."""
    return not oid.strip("0")
