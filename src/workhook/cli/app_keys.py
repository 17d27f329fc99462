"""The private key of an app, as `workhook app` reads, writes and shows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workhook.cli.error_messages import CliError, Misuse
from workhook.identity.apps import credentials


async def read_or_make_key(public_key: Path | None, key_file: Path | None) -> credentials.NewKey:
    """The caller's own public key, or a new key. Raises `CliError`."""
    if public_key is None:
        return await credentials.new_key()
    if key_file is not None:
        raise Misuse("--key-file and --public-key exclude each other.", "Your own private key stays where it is.")
    with public_key.open(encoding="ascii", errors="replace") as file:
        text = file.read(credentials.PEM_MAX + 1)
    try:
        return credentials.own_key(text)
    except ValueError as error:
        remedy = "Give --public-key another file."
        raise CliError(f"{public_key} does not hold what it must: {error}.", remedy) from None


@contextmanager
def new_file(path: Path | None) -> Iterator[Path | None]:
    """A new, empty file that only its owner reads. It goes again if what follows fails: no file, no key."""
    if path is None:
        yield None
        return
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise CliError(f"{path} is there already.", "Give --key-file another name: no key is overwritten.") from None
    try:
        yield path
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def write_key(path: Path | None, pem: str) -> None:
    """Write the key before the commit: a key that is good is never lost."""
    if path is None:
        return
    with path.open("w", encoding="ascii") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())


def pem_json(pem: str, key_file: Path | None) -> dict[str, object]:
    if key_file is not None:
        return {"key_file": str(key_file)}
    return {"pem": pem} if pem else {}


def pem_lines(pem: str, key_file: Path | None) -> list[str]:
    if key_file is not None:
        return [f"the private key is in {key_file}"]
    return [pem.strip()] if pem else []
