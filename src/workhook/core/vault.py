"""Encryption of secrets at rest.

The key is a setting, or a file (mode 0600) that is created in the data folder on the first start.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Sequence
from pathlib import Path

import structlog
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

KEY_FILE = "secret.key"

log = structlog.get_logger(__name__)


def to_base64(data: bytes) -> str:
    """Encode for URLs and cookies: letters, digits, hyphens and underscores, without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def signature_of(key: bytes, text: str) -> str:
    """Return the HMAC-SHA256 of a text as 43 characters of `to_base64`."""
    return to_base64(hmac.digest(key, text.encode(), "sha256"))


class VaultError(Exception):
    """The key is unusable, or is not the key that a secret was encrypted with."""


class Vault:
    """A set of keys. The first one encrypts and all of them decrypt, to support rotation.

    New keys are loaded from the file `source` when a secret cannot be opened, and before sealing or deriving, so that
    no process seals with a key that is about to be removed.
    """

    def __init__(self, keys: Sequence[bytes], source: Path | None = None) -> None:
        """Raise `VaultError` if a key is invalid."""
        self._source = source
        self._stamp: tuple[int, ...] | None = None
        self._take(keys)

    @classmethod
    def of_file(cls, path: Path) -> Vault:
        """Load the keys of a file. Raises `OSError` if it cannot be read, and `VaultError`."""
        stamp = _stamp_of(path)
        vault = cls(read_keys(path), path)
        vault._stamp = stamp
        return vault

    def _take(self, keys: Sequence[bytes]) -> None:
        name = self._source or KEY_FILE
        if not keys:
            raise VaultError(f"{name} is empty. Restore the right file.")
        try:
            fernets = [Fernet(key) for key in keys]
        except ValueError as error:
            reason = f"{name} does not contain a valid key: each line must be 32 bytes in URL-safe Base64"
            raise VaultError(f"{reason}. Restore the right file.") from error
        self._newest, self._all = fernets[0], MultiFernet(fernets)
        self._keys = tuple(base64.urlsafe_b64decode(key) for key in keys)

    def seal(self, secret: str | None) -> bytes | None:
        """Encrypt a secret. Returns None for None and the empty string.

        Call it in the transaction that stores the secret, after its first statement: rotations wait for open
        transactions.
        """
        if not secret:
            return None
        self._look()
        return self._newest.encrypt(secret.encode())

    def open(self, sealed: bytes | None) -> str | None:
        """Decrypt a secret. Raises `VaultError` if it was encrypted with an unknown key."""
        if sealed is None:
            return None
        while True:
            try:
                return self._all.decrypt(bytes(sealed)).decode()
            except InvalidToken:
                if not self._look():
                    raise VaultError(f"a stored secret was encrypted with a key that is not in {KEY_FILE}.") from None

    def reseal(self, sealed: bytes) -> bytes | None:
        """Encrypt a secret with the newest key. Returns None if it already used that key. Raises `VaultError`."""
        self._look()
        try:
            self._newest.decrypt(bytes(sealed))
        except InvalidToken:
            return self.seal(self.open(sealed))
        return None

    def derive(self, purpose: str) -> tuple[bytes, ...]:
        """Derive a 32-byte key from each key for one purpose. The first one signs; all of them verify."""
        self._look()
        return tuple(hmac.digest(key, b"workhook:" + purpose.encode(), "sha256") for key in self._keys)

    def sign(self, purpose: str, text: str) -> str:
        return signature_of(self.derive(purpose)[0], text)

    def is_signed(self, purpose: str, text: str, signature: str, *, length: int | None = None) -> bool:
        """Verify a signature in constant time, with every key. `length` is its length if it was shortened."""
        given = signature.encode(errors="replace")
        expected = [signature_of(key, text)[:length].encode() for key in self.derive(purpose)]
        found = [hmac.compare_digest(each, given) for each in expected]
        return any(found)

    def _look(self) -> bool:
        """Reload the keys if the file has changed. An unusable file is ignored."""
        stamp = _stamp_of(self._source) if self._source is not None else None
        if self._source is None or stamp is None or stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self._take(read_keys(self._source))
        except (OSError, VaultError) as error:
            log.error("key_file_unusable", path=str(self._source), error=str(error))
            return False
        log.info("key_file_reloaded", path=str(self._source), count=len(self._keys))
        return True

    def __repr__(self) -> str:
        return "Vault()"


def open_vault(data: Path, secret_key: str | None, *, make: bool) -> Vault:
    """Open the vault of a data folder. The key file has one key per line, newest first.

    `make` creates a missing key file; without it, raises `VaultError`. Also raises it for an invalid key.
    """
    if secret_key:
        return Vault(setting_keys(secret_key))
    path = data / KEY_FILE
    try:
        return Vault.of_file(path)
    except FileNotFoundError:
        if not make:
            raise VaultError(f"{path} is missing, but this database was used with that key.") from None
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = _draft(path, [new_key()])
    try:
        os.link(draft, path)  # fails if another process was first, whose key is then used
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return Vault.of_file(path)


def new_key() -> bytes:
    return Fernet.generate_key()


def setting_keys(secret_key: str) -> list[bytes]:
    return [_derived(each) for each in secret_key.split()]


def read_keys(path: Path) -> list[bytes]:
    """Return the keys of a file, newest first. Raises `OSError`."""
    return path.read_bytes().split()


def write_keys(path: Path, keys: Sequence[bytes]) -> None:
    """Replace the key file atomically and durably. Raises `OSError`.

    The owner is preserved, because a command may run as a different user than the server.
    """
    path = path.resolve()
    for stale in path.parent.glob(f".{path.name}.*"):  # left by a process that was killed here
        stale.unlink(missing_ok=True)
    draft = _draft(path, keys, owner=path.stat())
    try:
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _draft(path: Path, keys: Sequence[bytes], owner: os.stat_result | None = None) -> Path:
    """Write a private temporary file next to `path`, durably."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        if owner is not None and owner.st_uid != os.geteuid():
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        file.write(b"".join(key + b"\n" for key in keys))
        file.flush()
        os.fsync(file.fileno())
    return draft


def _stamp_of(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes with the file, or None if the file cannot be read."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _derived(text: str) -> bytes:
    """Return the key of a setting: a Fernet key unchanged, any other string hashed to one."""
    try:
        if len(base64.urlsafe_b64decode(text)) == 32:
            return text.encode()
    except ValueError:
        pass
    return base64.urlsafe_b64encode(hashlib.sha256(b"workhook:" + text.encode()).digest())
