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
def test_usual_exponents_are_accepted(exponent: int) -> None:
    assert own_key(_pem(3072, exponent)).private_key is None


@pytest.mark.parametrize("exponent", [2**32 + 1, 2**63 + 1, 2**2999 + 1])
def test_a_long_exponent_is_refused(exponent: int) -> None:
    """The time of a signature check grows with the length of the exponent, up to a hundred times the usual time."""
    with pytest.raises(ValueError, match="exponent"):
        own_key(_pem(3072, exponent))
