"""The public keys that an app may register. Anyone can cause a signature check with them."""

from __future__ import annotations

import secrets

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from workhook.identity.apps.credentials import own_key


def _pem(bits: int, exponent: int) -> str:
    modulus = 1 << (bits - 1) | secrets.randbits(bits - 1) | 1
    key = rsa.RSAPublicNumbers(exponent, modulus).public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, form).decode()


@pytest.mark.parametrize("exponent", [3, 17, 65537, 2**32 - 1])
def test_exponents_as_keys_have_them_are_taken(exponent: int) -> None:
    assert own_key(_pem(3072, exponent)).private_key is None


@pytest.mark.parametrize("exponent", [2**32 + 1, 2**63 + 1, 2**2999 + 1])
def test_a_long_exponent_is_refused(exponent: int) -> None:
    """A check takes longer the longer the exponent is, up to a hundred times as long as with the usual one."""
    with pytest.raises(ValueError, match="exponent"):
        own_key(_pem(3072, exponent))
