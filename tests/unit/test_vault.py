"""The key of a data folder, which is created once and never silently replaced."""

from __future__ import annotations

import errno
import importlib
import os
import pwd
import stat
from pathlib import Path

import asyncpg
import pytest
import sqlalchemy as sa
from cryptography.fernet import Fernet

from workhook.bootstrap import open_services
from workhook.cli.error_messages import explain
from workhook.cli.reencrypt import SEALED
from workhook.core.config import load
from workhook.core.vault import KEY_FILE, Vault, VaultError, new_key, open_vault, read_keys, write_keys
from workhook.storage.metadata import metadata


def test_a_secret_is_encrypted_and_can_be_decrypted() -> None:
    vault = Vault([Fernet.generate_key()])
    sealed = vault.seal("s3cret")
    assert sealed is not None
    assert b"s3cret" not in sealed
    assert vault.open(sealed) == "s3cret"
    assert vault.seal("") is None
    assert vault.open(None) is None


def test_old_keys_decrypt_and_the_first_key_encrypts() -> None:
    old, new = Fernet.generate_key(), Fernet.generate_key()
    sealed = Vault([old]).seal("s3cret")
    both = Vault([new, old])
    assert both.open(sealed) == "s3cret"
    assert Vault([new]).open(both.seal("again")) == "again"
    with pytest.raises(VaultError):
        Vault([new]).open(sealed)


def test_the_key_file_is_created_once_and_private(tmp_path: Path) -> None:
    sealed = open_vault(tmp_path, None, make=True).seal("s3cret")
    path = tmp_path / KEY_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert open_vault(tmp_path, None, make=True).open(sealed) == "s3cret"
    path.unlink()
    with pytest.raises(VaultError, match=KEY_FILE):
        open_vault(tmp_path, None, make=False)
    assert not path.exists()


def test_an_invalid_key_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text("not a key\n")
    with pytest.raises(VaultError, match="does not contain a valid key"):
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
    with pytest.raises(VaultError, match="a key that is not in"):
        async with open_services(settings):
            pass
    (tmp_path / KEY_FILE).write_bytes(Fernet.generate_key() + b"\n" + key)
    async with open_services(settings):
        pass


def test_signatures_of_any_key_are_valid_and_can_be_shortened() -> None:
    old, new = new_key(), new_key()
    signed = Vault([old]).sign("links", "text")
    rotated = Vault([new, old])
    assert rotated.is_signed("links", "text", signed)
    assert rotated.is_signed("links", "text", signed[:24], length=24)
    for wrong in ("", signed[:24], signed + "=", "é", "\udc80"):
        assert not rotated.is_signed("links", "text", wrong)
    assert not rotated.is_signed("links", "other", signed)
    assert not rotated.is_signed("else", "text", signed)
    assert not Vault([new]).is_signed("links", "text", signed)


def test_derived_keys_differ_from_their_keys() -> None:
    old, new = Fernet.generate_key(), Fernet.generate_key()
    first, second = Vault([new, old]).derive("links")
    assert Vault([new]).derive("links") == (first,)
    assert Vault([old]).derive("links") == (second,)
    assert Vault([new]).derive("else") != (first,)
    assert {len(first), len(second)} == {32}


def test_a_running_vault_picks_up_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / KEY_FILE
    server, idle = open_vault(tmp_path, None, make=True), open_vault(tmp_path, None, make=True)
    before = server.seal("s3cret")
    assert before is not None
    old, new = read_keys(path)[0], new_key()
    write_keys(path, [new, old])
    after = server.seal("s3cret")
    assert Vault([new]).open(after) == "s3cret", "sealing reads the file first"
    assert idle.open(after) == "s3cret", "failing to open reads the file as well"
    assert len(idle.derive("links")) == 2
    resealed = open_vault(tmp_path, None, make=False).reseal(before)
    assert Vault([new]).open(resealed) == "s3cret"
    assert after is not None
    assert server.reseal(after) is None
    write_keys(path, [new])
    assert server.open(after) == "s3cret"
    assert server.derive("links") == Vault([new]).derive("links")
    with pytest.raises(VaultError, match="a key that is not in"):
        server.seal("look") and server.open(before)


def test_resealing_reads_the_key_file_first(tmp_path: Path) -> None:
    """A vault that does not know the newest key yet would mistake the old one for it."""
    vault = open_vault(tmp_path, None, make=True)
    sealed = vault.seal("s3cret")
    assert sealed is not None
    new = new_key()
    write_keys(tmp_path / KEY_FILE, [new, *read_keys(tmp_path / KEY_FILE)])
    assert Vault([new]).open(vault.reseal(sealed)) == "s3cret"


def test_an_unusable_key_file_changes_nothing(tmp_path: Path) -> None:
    vault, path = open_vault(tmp_path, None, make=True), tmp_path / KEY_FILE
    sealed, keys = vault.seal("s3cret"), read_keys(path)
    for broken in (b"", b"not a key\n"):
        path.write_bytes(broken)
        assert Vault(keys).open(vault.seal("more")) == "more"
        assert vault.open(sealed) == "s3cret"
    path.unlink()
    assert Vault(keys).open(vault.seal("more")) == "more"


def test_the_key_file_is_replaced_atomically_and_private(tmp_path: Path) -> None:
    open_vault(tmp_path, None, make=True)
    (tmp_path / f".{KEY_FILE}.1").write_text("what a process left that was killed")
    link = tmp_path / "elsewhere"
    link.symlink_to(tmp_path / KEY_FILE)
    keys = [new_key(), new_key()]
    write_keys(link, keys)
    assert link.is_symlink()
    assert read_keys(tmp_path / KEY_FILE) == keys
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["elsewhere", KEY_FILE]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away: NOT TESTED.")
def test_the_key_file_keeps_its_owner(tmp_path: Path) -> None:
    open_vault(tmp_path, None, make=True)
    os.chown(tmp_path / KEY_FILE, 4711, 4712)
    write_keys(tmp_path / KEY_FILE, [new_key()])
    found = (tmp_path / KEY_FILE).stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (4711, 4712, 0o600)


def test_every_binary_column_is_declared_sealed_or_not() -> None:
    """Columns missed by a rotation are lost with the old key."""
    importlib.import_module("workhook.asgi")
    found = {
        f"{table.name}.{column.name}"
        for table in metadata.tables.values()
        for column in table.columns
        if isinstance(column.type, sa.LargeBinary)
    }
    sealed = {f"{table.name}.{name}" for table, names in SEALED.items() for name in names}
    assert sealed == {
        "hooks.secret",
        "hooks.previous_secret",
        "hooks.password",
        "key_check.sealed",
        "mail_messages.sealed",
    }
    digests = {each for each in found if each.endswith((".digest", ".link_digest", ".fingerprint"))}
    contents = {
        "deliveries.request_headers", "deliveries.response_headers", "deliveries.response_body", "events.payload",
        "idempotency_keys.body", "sent_forms.answer", "arrivals.headers", "arrivals.body",
    }  # fmt: skip
    assert found == sealed | digests | contents, "is it sealed? then cli/sealed.py has to know it"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("not a key\n", "does not contain a valid key: each line must be 32 bytes in URL-safe Base64"),
        (f"{'A' * 42}==\n", "does not contain a valid key: each line must be 32 bytes in URL-safe Base64"),
        (f"{Fernet.generate_key().decode()}\nshort\n", "does not contain a valid key: each line must be"),
    ],
    ids=["empty", "blank", "no-base64", "too-short", "second-line"],
)
def test_an_unusable_key_file_is_named_with_a_remedy(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / KEY_FILE).write_text(content)
    with pytest.raises(VaultError) as refused:
        open_vault(tmp_path, None, make=True)
    assert str(refused.value).startswith(f"{tmp_path / KEY_FILE} {reason}")
    explained = explain(refused.value, load({"data": str(tmp_path)}, {}))
    assert explained is not None
    fault, remedy = explained
    assert fault.startswith(f"{tmp_path / KEY_FILE} {reason}")
    assert remedy == "Restore the key that belongs to this database, as the file or in WORKHOOK_SECRET_KEY."
    with pytest.raises(VaultError) as refused:
        open_vault(tmp_path, " ", make=True)
    explained = explain(refused.value, load({"data": str(tmp_path)}, {"WORKHOOK_SECRET_KEY": " "}))
    assert explained == ["WORKHOOK_SECRET_KEY is empty.", "Set the key that belongs to this database."]


def test_a_denied_permission_names_a_folder_that_exists(tmp_path: Path) -> None:
    error = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "monday"))
    assert (explain(error, None) or [""])[0] == f"{tmp_path}: Permission denied."


def test_a_denied_permission_of_a_relative_path_names_the_folder_and_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command may run as another user than the one who typed it."""
    monkeypatch.chdir(tmp_path)
    error = PermissionError(errno.EACCES, "Permission denied", "monday")
    user = pwd.getpwuid(os.geteuid()).pw_name
    remedy = f"Check the path and the permissions of the user {user}."
    assert explain(error, load({"data": "/srv/workhook"}, {})) == [f"{tmp_path}: Permission denied.", remedy]


def test_a_pooler_needs_a_session_url() -> None:
    settings = load({}, {"WORKHOOK_DATABASE_URL": "postgresql://workhook@db:6432/workhook"})
    said = explain(asyncpg.ProtocolViolationError("unsupported startup parameter: jit"), settings)
    assert said == [
        "PostgreSQL at db:6432: unsupported startup parameter: jit.",
        "Behind a pooler such as PgBouncer, set WORKHOOK_DATABASE_SESSION_URL to the URL of PostgreSQL itself, "
        "and WORKHOOK_DATABASE_URL instead of --database-url.",
    ]


def test_a_role_without_rights_must_own_the_database() -> None:
    settings = load({}, {"WORKHOOK_DATABASE_URL": "postgresql://workhook@db/workhook"})
    said = explain(asyncpg.InsufficientPrivilegeError("permission denied for schema public"), settings)
    assert said == [
        "PostgreSQL at db:5432: permission denied for schema public.",
        "The role must own the database.",
    ]
