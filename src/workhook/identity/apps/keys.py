"""The secrets of an app: client ids, client secrets, and keys for RS256. What is private is stored nowhere."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import string
from typing import NamedTuple

BITS = 2048
BITS_MAX = 8192  # to check a signature costs time that grows with the key
EXPONENT_MAX = 2**32  # likewise; nearly every key has 65537
PEM_MAX = 8192

_CLIENT_ID_PREFIXES = {"oauth": "Ov23li", "app": "Iv23li"}
_CLIENT_ID_LENGTH = 20


class NewKey(NamedTuple):
    """`private_key` is None for a key whose other half the caller has. Both are PEM; see `fingerprint_of`."""

    public_key: str
    fingerprint: str
    private_key: str | None = None

    def __repr__(self) -> str:
        return f"NewKey(fingerprint={self.fingerprint!r})"


def new_client_id(kind: str) -> str:
    """20 characters, as clients know them."""
    prefix = _CLIENT_ID_PREFIXES[kind]
    letters = string.ascii_letters + string.digits
    return prefix + "".join(secrets.choice(letters) for _ in range(_CLIENT_ID_LENGTH - len(prefix)))


def new_client_secret() -> str:
    """40 hexadecimal characters: 160 random bits."""
    return secrets.token_hex(20)


async def new_key() -> NewKey:
    """An RSA key of 2048 bits. It takes a good part of a second: make it before a transaction, not in one."""
    return await asyncio.to_thread(_make)


def _make() -> NewKey:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return _described(key.public_key(), private.decode())


def own_key(pem: str) -> NewKey:
    """The caller's own public key. Raises `ValueError` that says what it has to be."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if "PRIVATE KEY" in pem:
        raise ValueError("the public half alone: keep the private key to yourself")
    try:
        key = load_pem_public_key(pem.strip().encode()) if len(pem) <= PEM_MAX else None
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, rsa.RSAPublicKey) or not BITS <= key.key_size <= BITS_MAX:
        raise ValueError(f"the PEM of an RSA public key of {BITS} to {BITS_MAX} bits")
    if key.public_numbers().e > EXPONENT_MAX:
        raise ValueError("an RSA public key with the usual exponent, 65537, or another of at most 32 bits")
    return _described(key, None)


def _described(key: object, private: str | None) -> NewKey:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    assert isinstance(key, rsa.RSAPublicKey)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    der = key.public_bytes(serialization.Encoding.DER, form)
    return NewKey(key.public_bytes(serialization.Encoding.PEM, form).decode(), fingerprint_of(der), private)


def fingerprint_of(der: bytes) -> str:
    """`SHA256:` and the Base64 of the digest of the public key's DER, which OpenSSL shows too."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(der).digest()).decode()
