"""The key of a data folder: made once, never replaced in silence."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from workhook.bootstrap import open_services
from workhook.core.config import load
from workhook.core.vault import KEY_FILE, Vault, VaultError, open_vault


def test_a_secret_comes_back_and_is_not_stored_as_it_is() -> None:
    vault = Vault([Fernet.generate_key()])
    sealed = vault.seal("s3cret")
    assert sealed is not None
    assert b"s3cret" not in sealed
    assert vault.open(sealed) == "s3cret"
    assert vault.seal("") is None
    assert vault.open(None) is None


def test_old_keys_still_open_and_the_first_seals() -> None:
    old, new = Fernet.generate_key(), Fernet.generate_key()
    sealed = Vault([old]).seal("s3cret")
    both = Vault([new, old])
    assert both.open(sealed) == "s3cret"
    assert Vault([new]).open(both.seal("again")) == "again"
    with pytest.raises(VaultError):
        Vault([new]).open(sealed)


def test_the_file_is_made_once_for_the_owner_alone(tmp_path: Path) -> None:
    sealed = open_vault(tmp_path, None, make=True).seal("s3cret")
    path = tmp_path / KEY_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert open_vault(tmp_path, None, make=True).open(sealed) == "s3cret"
    path.unlink()
    with pytest.raises(VaultError, match=KEY_FILE):
        open_vault(tmp_path, None, make=False)
    assert not path.exists()


def test_what_is_no_key_is_told(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text("not a key\n")
    with pytest.raises(VaultError, match="no usable key"):
        open_vault(tmp_path, None, make=True)


async def test_a_database_is_opened_only_with_its_key(tmp_path: Path) -> None:
    settings = load({"data": str(tmp_path)}, {})
    async with open_services(settings):
        pass
    async with open_services(settings):
        pass
    key = (tmp_path / KEY_FILE).read_bytes()
    (tmp_path / KEY_FILE).unlink()
    with pytest.raises(VaultError, match="missing"):
        async with open_services(settings):
            pass
    (tmp_path / KEY_FILE).write_bytes(Fernet.generate_key())
    with pytest.raises(VaultError, match="another key"):
        async with open_services(settings):
            pass
    (tmp_path / KEY_FILE).write_bytes(Fernet.generate_key() + b"\n" + key)
    async with open_services(settings):
        pass


def test_keys_for_a_purpose_come_from_each_key_and_are_none_of_them() -> None:
    old, new = Fernet.generate_key(), Fernet.generate_key()
    first, second = Vault([new, old]).derive("links")
    assert Vault([new]).derive("links") == (first,)
    assert Vault([old]).derive("links") == (second,)
    assert Vault([new]).derive("else") != (first,)
    assert {len(first), len(second)} == {32}
