"""Encrypts secrets at rest. The key is a setting, or a file (mode 0600) that the first start makes in the data
folder."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

KEY_FILE = "secret.key"


class VaultError(Exception):
    """The key cannot be used, or is not the one that a secret was encrypted with."""


class Vault:
    """Keys newest first: the first encrypts, all decrypt, so that a key can be rotated."""

    def __init__(self, keys: list[bytes]) -> None:
        """Raises `VaultError` for what is no key."""
        try:
            self._fernet = MultiFernet([Fernet(key) for key in keys])
        except ValueError as error:
            raise VaultError(f"{KEY_FILE} holds no usable key: {error}. Put the right file back.") from error
        self._keys = tuple(base64.urlsafe_b64decode(key) for key in keys)

    def seal(self, secret: str | None) -> bytes | None:
        """None and the empty text are no secret."""
        return self._fernet.encrypt(secret.encode()) if secret else None

    def open(self, sealed: bytes | None) -> str | None:
        """Raises `VaultError`."""
        if sealed is None:
            return None
        try:
            return self._fernet.decrypt(bytes(sealed)).decode()
        except InvalidToken:
            raise VaultError(f"A stored secret was encrypted with another key than {KEY_FILE} holds.") from None

    def derive(self, purpose: str) -> tuple[bytes, ...]:
        """Keys of 32 bytes for one purpose, such as signing, which tell nothing of the keys that they come from.

        One for each key, newest first: the first signs, all verify.
        """
        return tuple(hmac.digest(key, b"workhook:" + purpose.encode(), "sha256") for key in self._keys)

    def __repr__(self) -> str:
        return "Vault()"


def open_vault(data: Path, secret_key: str | None, *, make: bool) -> Vault:
    """The vault of a data folder. Several keys stand one a line, the newest first.

    `make`: a key that is not there is made; otherwise `VaultError`, as for what is no key.
    """
    if secret_key:
        return Vault([_derived(line) for line in secret_key.split() if line])
    path = data / KEY_FILE
    try:
        return Vault(path.read_bytes().split())
    except FileNotFoundError:
        if not make:
            raise VaultError(f"{path} is missing, and this database was used with it.") from None
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{KEY_FILE}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(Fernet.generate_key() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)  # fails if another process was first: then its key is the key
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return Vault(path.read_bytes().split())


def _derived(text: str) -> bytes:
    """Any text of enough length serves as a setting; a Fernet key is taken as it is."""
    try:
        if len(base64.urlsafe_b64decode(text)) == 32:
            return text.encode()
    except ValueError:
        pass
    return base64.urlsafe_b64encode(hashlib.sha256(b"workhook:" + text.encode()).digest())
