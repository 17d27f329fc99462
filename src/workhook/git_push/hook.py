"""The `post-receive` hook: records the push and starts the sender. It imports little because the pusher waits."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from workhook.git_push import git, spool
from workhook.git_push.spool import HookFolder

SNAPSHOT_TIMEOUT_S = 10.0

MODULE_FLAGS = ("-E", "-P", "-m", "workhook.git_push")
"""Neither the pusher's `PYTHON…` variables nor the current folder (the repository!) may influence imports."""


def post_receive(git_dir: Path, lines: Iterable[str]) -> int:
    """Record one push and start a detached sender.

    Always returns 0, because a failure here must not look like a failed push.

    `lines` are the input of `post-receive` (githooks): `BEFORE AFTER REF`, with bytes that are not UTF-8 as surrogate
    escapes. The pusher and the options of `git push -o` come from the environment.
    """
    folder = HookFolder(git_dir)
    if not folder.root.is_dir():
        return 0  # a hooks folder shared by many repositories, and this one is not connected
    try:
        recorded = _record(folder, lines)
    except Exception as error:  # noqa: BLE001 (the push has succeeded whatever happens here; it is said and logged)
        folder.log.error(f"a push could not be recorded: {type(error).__name__}: {error}")
        _say("this push could not be recorded and sends no event", error)
        return 0
    if recorded:
        try:
            start_sender(folder)
        except (OSError, subprocess.SubprocessError) as error:
            folder.log.error(f"the sender could not be started: {error}")
            _say("the push is recorded; its events are sent with the next push", error)
    return 0


def _record(folder: HookFolder, lines: Iterable[str]) -> bool:
    parsed = [parts for line in lines if (parts := _parse(line)) is not None]
    if not parsed:
        return False
    folder.spool.mkdir(mode=0o700, exist_ok=True)
    name = spool.new_name(folder)
    updates = tuple(spool.RefUpdate(f"{name}.{at}", *parts) for at, parts in enumerate(parsed))
    email = os.environ.get("WORKHOOK_PUSHER_EMAIL") or _configured_email(folder)
    entry = spool.Push(time.time_ns() // 1_000_000, _pusher(), email, _options(), updates, _snapshot(folder))
    spool.write(folder, name, entry)
    return True


def _parse(line: str) -> tuple[str, str, str] | None:
    parts = line.rstrip("\n").split(" ", 2)
    if len(parts) != 3 or not spool.is_oid(parts[0]) or not spool.is_oid(parts[1]) or not parts[2]:
        return None
    return parts[0], parts[1], parts[2]


def _pusher() -> str:
    """Return the pusher's name in the front end (over HTTP: `REMOTE_USER`), or else the account's name."""
    for variable in ("WORKHOOK_PUSHER", "REMOTE_USER", "USER", "LOGNAME"):
        if value := os.environ.get(variable):
            return value
    import pwd  # needed only for a daemon without an environment

    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.getuid()).pw_name
    return str(os.getuid())


def _configured_email(folder: HookFolder) -> str | None:
    """Return `user.email`, or None to use the newest commit's."""
    try:
        output = git.run(folder.git_dir, "config", "--get", "user.email", timeout_s=SNAPSHOT_TIMEOUT_S)
    except (git.GitError, git.GitMissing):
        return None  # usually not set on a server
    return output.decode("utf-8", "replace").strip() or None


def _options() -> tuple[str, ...]:
    count = os.environ.get("GIT_PUSH_OPTION_COUNT", "")
    return tuple(os.environ.get(f"GIT_PUSH_OPTION_{at}", "") for at in range(int(count) if count.isdecimal() else 0))


def _snapshot(folder: HookFolder) -> tuple[tuple[str, str], ...] | None:
    """Return the current branches and tags, because later pushes must not influence which commits are new."""
    try:
        return git.branches_and_tags(folder.git_dir, SNAPSHOT_TIMEOUT_S)
    except (git.GitError, git.GitMissing) as error:
        folder.log.error(f"no snapshot of the refs: {error}")
        return None


def start_sender(folder: HookFolder) -> None:
    """Start `send` detached and without inherited descriptors, because Git waits until all of them are closed.

    A shell starts it and exits immediately, so the hook waits for about a millisecond.
    """
    sender = [sys.executable, *MODULE_FLAGS, "send", str(folder.git_dir)]
    subprocess.run(  # noqa: S603 (our own interpreter and folder, as arguments)
        ["/bin/sh", "-c", '"$@" &', "sh", *sender],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env=git.child_env(),
        check=True,
    )


def _say(text: str, error: Exception) -> None:
    """Print one line to the pusher, shown as `remote: workhook: …`."""
    reason = " ".join(str(error).split())[:200]
    with contextlib.suppress(OSError, ValueError):  # the pusher may be gone
        print(f"workhook: {text} ({reason})", file=sys.stderr, flush=True)
