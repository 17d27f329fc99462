"""Credentials of apps: a JSON Web Token signed with the app's key, or the client ID and secret.

Private keys and secrets are generated here and not stored.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import re
import secrets
import string
from typing import Any, TypeGuard

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.disclosure import HiddenRepr
from workhook.core.errors import Malformed, Unauthenticated, compose
from workhook.identity.apps import queries
from workhook.identity.apps.schemas import App
from workhook.identity.queries import USE_NOTED_MS, record_use
from workhook.identity.tables import app_secrets
from workhook.identity.tokens.issue import digest_of
from workhook.storage import Database, Reader
from workhook.storage.metadata import bigint_param

LIFETIME_MAX_S = 10 * 60
SKEW_S = 60  # clocks differ, and clients backdate `iat` by as much
_ALGORITHMS = ["RS256"]  # fixed, so that a token cannot choose a weaker one
_LENGTH_MAX = 4096
_COMPACT = re.compile(r"(?:[A-Za-z0-9_-]+\.){2}[A-Za-z0-9_-]+")  # RFC 7515, section 7.1
_UNDECODABLE = "A JSON web token could not be decoded"

_secrets = sa.select(app_secrets.c.id, app_secrets.c.digest, app_secrets.c.last_used_at).where(
    app_secrets.c.app_id == bigint_param("app_id")
)


async def authenticate_app(reader: Reader, token: str) -> App:
    """Return the app whose key signed the JWT (RFC 7519). Raises `Unauthenticated` with GitHub's messages."""
    claims = _unverified_claims(token)
    app = await _issuer(reader, claims)
    if app is None or app.is_oauth:
        raise Unauthenticated("Integration not found")
    # Try all of its keys, because the header's `kid`, `jwk`, `jku` or `x5u` cannot be trusted to choose one.
    if not any(_is_signed_with(token, each.public_key) for each in await queries.list_keys(reader, app.id)):
        raise Unauthenticated(_UNDECODABLE)
    _check_times(claims)
    return app


async def authenticate_client(database: Database, client_id: str, client_secret: str) -> App | None:
    """Return the app if the secret is one of its own. An unknown ID takes the same time."""
    app = await queries.find_client(database, client_id)
    digest = digest_of(client_secret)
    known = await database.fetch_all(_secrets, {"app_id": app.id if app else 0})
    matching = [row for row in known if secrets.compare_digest(bytes(row["digest"]), digest)]
    now = now_ms()
    for row in matching:  # shows which secret is still in use during a rotation
        if now - (row["last_used_at"] or 0) >= USE_NOTED_MS:
            await record_use(database, app_secrets, row["id"], now)
    return app if matching else None


def basic_credentials(header: str | None) -> tuple[str, str] | None:
    """Parse user and password from an `Authorization: Basic` header (RFC 7617)."""
    scheme, _, encoded = (header or "").strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if colon else None


def _unverified_claims(token: str) -> dict[str, Any]:
    """Parse the claims once, so that the same ones are trusted after the signature is verified."""
    if len(token) > _LENGTH_MAX or not _COMPACT.fullmatch(token):
        raise Unauthenticated(_UNDECODABLE)
    header, claims = (_object(part) for part in token.split(".")[:2])
    # RFC 7515, section 4.1.11: a token with an unknown `crit` is rejected, and all are unknown here.
    if header.get("alg") not in _ALGORITHMS or "crit" in header:
        raise Unauthenticated(_UNDECODABLE)
    return claims


def _object(part: str) -> dict[str, Any]:
    try:
        value = json.decode_untrusted(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, Malformed):
        raise Unauthenticated(_UNDECODABLE) from None
    if not isinstance(value, dict):
        raise Unauthenticated(_UNDECODABLE)
    return value


async def _issuer(reader: Reader, claims: dict[str, Any]) -> App | None:
    """Return the app named by `iss`: its ID, as a number or a string, or its client ID."""
    issuer = claims.get("iss")
    if isinstance(issuer, int) and not isinstance(issuer, bool):
        issuer = str(issuer)
    if not isinstance(issuer, str):
        raise Unauthenticated("'Issuer' claim ('iss') must be the ID or the client ID of the app")
    if issuer.isascii() and issuer.isdigit() and len(issuer) <= 15:
        return await queries.find_app(reader, int(issuer))
    return await queries.find_client(reader, issuer) if "\0" not in issuer else None


def _is_signed_with(token: str, pem: str) -> bool:
    # Few servers need the library.
    from joserfc import jws
    from joserfc.errors import JoseError
    from joserfc.jwk import RSAKey

    try:
        # The token cannot choose the algorithm (RFC 8725, section 3.1), such as HMAC with the public key.
        jws.deserialize_compact(token, RSAKey.import_key(pem), algorithms=_ALGORITHMS)
    except (JoseError, ValueError, RecursionError):
        return False
    return True


def _check_times(claims: dict[str, Any]) -> None:
    """Raise `Unauthenticated` if a time is invalid. Clients recognize a wrong clock by these exact messages."""
    now_s = now_ms() // 1000
    issued, expires, begins = (claims.get(name) for name in ("iat", "exp", "nbf"))
    if not _is_number(issued) or issued > now_s + SKEW_S:
        message = "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
        raise Unauthenticated(message)
    if not _is_number(expires) or expires <= now_s:
        message = "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the "
        raise Unauthenticated(message + "assertion expires")
    if expires > now_s + LIFETIME_MAX_S + SKEW_S:
        raise Unauthenticated("'Expiration time' claim ('exp') is too far in the future")
    if begins is not None and (not _is_number(begins) or begins > now_s + SKEW_S):
        raise Unauthenticated("'Not before' claim ('nbf') must be a numeric value representing a time that has come")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


BITS = 2048
BITS_MAX = 8192  # limits the time to verify a signature
EXPONENT_MAX = 2**32  # also limits it; nearly every key has 65537
PEM_MAX = 8192

_CLIENT_ID_PREFIXES = {"oauth": "Ov23li", "app": "Iv23li"}
_CLIENT_ID_LENGTH = 20


class NewKey(HiddenRepr, msgspec.Struct, frozen=True):
    """A key pair in PEM. `private_key` is None for the caller's own key."""

    public_key: str
    fingerprint: str  # of the public key's DER
    private_key: str | None = None


def new_client_id(kind: str) -> str:
    prefix = _CLIENT_ID_PREFIXES[kind]
    letters = string.ascii_letters + string.digits
    return prefix + "".join(secrets.choice(letters) for _ in range(_CLIENT_ID_LENGTH - len(prefix)))


async def new_key() -> NewKey:
    """Generate an RSA key of 2048 bits. Takes up to a second, so do it before a transaction."""
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
    """Parse the caller's own public key. Raises `ValueError` with the accepted format."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if "PRIVATE KEY" in pem:
        raise ValueError("only the public key; keep the private key to yourself")
    try:
        key = load_pem_public_key(pem.strip().encode()) if len(pem) <= PEM_MAX else None
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, rsa.RSAPublicKey) or not BITS <= key.key_size <= BITS_MAX:
        raise ValueError(compose("the PEM of an RSA public key of {} to {} bits", BITS, BITS_MAX))
    if key.public_numbers().e > EXPONENT_MAX:
        raise ValueError("an RSA public key with the usual exponent, 65537, or another of at most 32 bits")
    return _described(key, None)


def _described(key: object, private: str | None) -> NewKey:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    assert isinstance(key, rsa.RSAPublicKey)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    der = key.public_bytes(serialization.Encoding.DER, form)
    fingerprint = "SHA256:" + base64.b64encode(hashlib.sha256(der).digest()).decode()  # as OpenSSL shows it
    return NewKey(key.public_bytes(serialization.Encoding.PEM, form).decode(), fingerprint, private)
