"""`workhook secrets`."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from workhook.cli import reencrypt
from workhook.cli.common import Context, command, new_app
from workhook.cli.error_messages import CliError
from workhook.cli.options import Flag
from workhook.cli.output import show_progress
from workhook.core import vault
from workhook.core.text import counted
from workhook.identity import audit

if TYPE_CHECKING:
    from workhook.http.calls import Services

app = new_app("Manage the key that encrypts secrets at rest.")

_SETTING_STEPS = """\
With WORKHOOK_SECRET_KEY, you rotate the key yourself:
  1. Append a new key to the old one, separated by a space, and restart every process. All can now decrypt with both.
  2. Put the new key first and restart every process. All now encrypt with it.
  3. Run `workhook secrets rotate` with the same setting. It re-encrypts everything with the first key.
  4. Remove the old key and restart every process. Keep the old key with the backups made before."""


@command(app, "rotate")
async def rotate(
    context: Context,
    *,
    keep_old: Annotated[bool, Flag("Keep the old key in the file until the next rotation.")] = False,
) -> None:
    """Create a new key, re-encrypt every stored secret with it, and drop the old key. Servers can keep running.

    You can interrupt the command at any time and run it again: it finishes the rotation without creating another key.
    It also creates no new key if the file still contains an old key kept by --keep-old.

    Dropping a key invalidates links to files that were signed with it. Backups made earlier need a copy of the key:
    copy secret.key first.
    """
    async with context.services() as services:
        if context.settings.secret_key:
            await _rotate_setting(context, services)
            return
        with _alone(context.settings.data):
            await _rotate_file(context, services, keep_old)


async def _rotate_file(context: Context, services: Services, keep_old: bool) -> None:
    path = context.settings.data / vault.KEY_FILE
    keys = vault.read_keys(path)
    made = len(keys) == 1
    if made:
        keys = [vault.new_key(), *keys]
        vault.write_keys(path, keys)
    since = await reencrypt.database_time(services.database)
    with show_progress() as progress:
        done = await reencrypt.reencrypt_all(services.database, services.vault, progress)
    ended = keep_old or await reencrypt.wait_for_transactions(services.database, since)
    dropped = 0
    if ended and not keep_old:
        more = await reencrypt.reencrypt_all(services.database, services.vault, lambda what, so_far, total: None)
        done.changed += more.changed
        done.unreadable = more.unreadable  # the same ones again
        dropped = len(keys) - 1
    answer = {"new_key": made, "resealed": done.changed, "unreadable": done.unreadable, "dropped_keys": dropped}
    await _record(services, vault.KEY_FILE, answer)
    if dropped:
        vault.write_keys(path, keys[:1])
    context.print_result(answer, "\n".join(_sentences(made, done, dropped)))
    if not ended:
        raise CliError(
            "the old key was kept: a transaction from before the rotation is still open in the database.",
            "Rerun the command once it has ended.",
        )


async def _rotate_setting(context: Context, services: Services) -> None:
    keys = vault.setting_keys(context.settings.secret_key or "")
    if len(keys) == 1:
        message = "WORKHOOK_SECRET_KEY contains only one key, and this command does not change settings."
        raise CliError(message, _SETTING_STEPS)
    with show_progress() as progress:
        done = await reencrypt.reencrypt_all(services.database, services.vault, progress)
    answer = {"new_key": False, "resealed": done.changed, "unreadable": done.unreadable, "dropped_keys": 0}
    await _record(services, "WORKHOOK_SECRET_KEY", answer)
    last = "Now remove the old keys from WORKHOOK_SECRET_KEY and restart every process."
    context.print_result(answer, "\n".join([*_sentences(False, done, 0), last]))


async def _record(services: Services, target: str, answer: Mapping[str, object]) -> None:
    """Record the rotation in the audit log, before any key is dropped. The entry belongs to no organization."""
    async with services.database.transaction() as tx:
        await audit.record(tx, None, "secrets.rotate", target, account_id=0, detail=answer)


def _sentences(made: bool, done: reencrypt.Reencrypted, dropped: int) -> Iterator[str]:
    yield f"{'a new key; ' if made else ''}{counted(done.changed, 'secret')} encrypted with the newest key"
    if done.unreadable:
        secrets = counted(done.unreadable, "secret")
        yield f"{secrets} cannot be decrypted with any key: set new secrets for their webhooks"
    if dropped:
        yield f"{counted(dropped, 'old key')} dropped; only backups made before this still need it"


@contextmanager
def _alone(data: Path) -> Iterator[None]:
    """Allow only one rotation at a time. Raises `CliError`."""
    folder = os.open(data, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CliError("a rotation is already in progress.", "Wait for it to end.") from None
        yield
    finally:
        os.close(folder)
