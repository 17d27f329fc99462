"""`workhook backup` and `workhook restore` on both databases."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from tests.cli.backup_kit import Small, running, served
from tests.cli.cli_kit import Cli
from tests.harness import forge
from tests.harness.databases import Databases, databases
from tests.harness.s3 import S3, running_s3
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S, finish, until
from workhook.storage.backups import EarlierBackup, set_revision
from workhook.storage.migrate import RESTORING


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    with running_s3() as started:
        for name, value in started.environment.items():
            monkeypatch.setenv(name, value)
        yield started


@pytest.fixture(scope="module")
def shared_folder(_shared_folder: Path) -> Path:
    """Return the folder of all databases of the test run."""
    return _shared_folder


@pytest.fixture(scope="module")
def sqlite(shared_folder: Path) -> Databases:
    return databases("sqlite", shared_folder)


@pytest.fixture(scope="module")
def filled(sqlite: Databases, tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Return a studio on SQLite whose server has stopped."""
    with served(tmp_path_factory.mktemp("filled"), sqlite) as (made, server):
        server.stop()
    return made


@pytest.fixture
def small(filled: Small, tmp_path: Path) -> Small:
    """Return a copy of the filled studio."""
    return filled.copied(tmp_path / "data")


@pytest.fixture
def made(small: Small, tmp_path: Path) -> Path:
    """Return a backup of the studio, including its key."""
    small.cli.json("backup", str(tmp_path / "backup"), "--with-key")
    return tmp_path / "backup"


def nobody(tmp_path: Path, name: str = "restored", **settings: str) -> Cli:
    """Return a command whose data folder does not exist yet."""
    return Cli(tmp_path / name, settings)


# --- backup and restore -----------------------------------------------------------------------------------------------


@pytest.mark.variants("target")
@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
def test_a_running_studio_is_backed_up_and_restored(
    backend: Databases, target: str, tmp_path: Path, shared_folder: Path
) -> None:
    """Everything acknowledged before the backup began is restored, even though users keep writing meanwhile."""
    with served(tmp_path, backend) as (small, server), _Writing(server, small) as written:
        until(lambda: len(written) > 5)
        before = list(written)
        answer = small.cli.json("backup", str(tmp_path / "backup"), "--with-key")
        known = len(written)
        until(lambda: len(written) > known)  # writers did not have to wait for the end of the backup
    assert answer["files"] >= len(small.files) - len(written)
    assert (answer["missing"], answer["damaged"], answer["key"]) == ([], [], True)
    settings = databases(target, shared_folder).empty(tmp_path / "unused")
    restored = nobody(tmp_path, **settings).json("restore", str(tmp_path / "backup"))
    assert (restored["rows"], restored["files"]) == (answer["rows"], answer["files"])
    assert restored["key"] == "restored"
    with running(tmp_path / "restored", settings) as again:
        with again.client(small.token) as client:
            for task, file in before:
                assert client.get(f"/api/v1/tasks/{task}").status_code == 200
                assert client.get(f"/api/v1/files/{file}/content").content == small.files[file]
            small.files = {each: small.files[each] for each in _ids_of_files(client, small)}
        small.check(again)
        assert nobody(tmp_path, **settings).json("doctor")["ok"]


class _Writing:
    """Adds tasks and files one after the other while the block runs. Entering returns the growing list of their IDs."""

    def __init__(self, server: Server, small: Small) -> None:
        self._server, self._small, self._over = server, small, threading.Event()
        self._written: list[tuple[str, str]] = []
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        with self._server.client(self._small.token) as client:
            while not self._over.is_set():
                task = self._small.add_task(client, "written meanwhile")["id"]
                self._small.upload(client, os.urandom(2000))
                self._written.append((task, next(reversed(self._small.files))))

    def __enter__(self) -> list[tuple[str, str]]:
        self._thread.start()
        return self._written

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


def _ids_of_files(client: httpx.Client, small: Small) -> list[str]:
    """Return the IDs of the files that the restored database has."""
    return [each for each in small.files if client.get(f"/api/v1/files/{each}").status_code == 200]


def _inodes(backup: Path) -> dict[str, int]:
    return {each.name: each.stat().st_ino for each in (backup / "files").rglob("blb_*")}


def test_an_unchanged_file_of_an_earlier_backup_is_linked(small: Small, made: Path, tmp_path: Path) -> None:
    """Each backup is complete on its own. Damaged files are not linked, and an interrupted backup does no harm."""
    before = _inodes(made)
    assert len(before) == len(small.files)
    unfinished = tmp_path / "interrupted"
    (unfinished / "files").mkdir(parents=True)
    damaged = next(path for path in (made / "files").rglob("blb_*") if path.stat().st_size)
    whole = damaged.read_bytes()
    damaged.unlink()
    damaged.write_bytes(b"x" * len(whole))
    again = small.cli.json("backup", str(tmp_path / "second"))
    assert again["files_linked"] == len(before) - 1
    second = _inodes(tmp_path / "second")
    assert {name for name, inode in second.items() if before.get(name) == inode} == before.keys() - {damaged.name}
    assert (tmp_path / "second" / "files" / damaged.name[-2:] / damaged.name).read_bytes() == whole
    shutil.rmtree(made)
    shutil.rmtree(unfinished)
    third = small.cli.json("backup", str(tmp_path / "third"))
    assert third["files_linked"] == len(before)
    shutil.rmtree(tmp_path / "second")
    restored = nobody(tmp_path).json("restore", str(tmp_path / "third"))
    assert restored["files"] == len(before)
    assert small.cli.json("backup", str(tmp_path / "fourth"), "--copy-all")["files_linked"] == 0
    said = small.cli.run("backup", str(tmp_path / "fifth")).stderr.splitlines()
    assert len(said) <= 3, said


def test_a_folder_of_another_user_beside_a_backup_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private = tmp_path / "private"
    private.mkdir()

    def refuse(place: Path, *rest: Any, **more: Any) -> Any:
        if private in (place, place.parent):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
        return stat_of(place, *rest, **more)

    stat_of = Path.stat
    monkeypatch.setattr(Path, "stat", refuse)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert EarlierBackup.newest_beside(tmp_path / "monday") is None
    assert EarlierBackup.newest_beside(tmp_path / "missing" / "monday") is None


def test_a_backup_folder_is_complete_and_private(made: Path, small: Small) -> None:
    assert sorted(each.name for each in made.iterdir()) == [
        "SHA256SUMS", "files", "manifest.json", "secret.key", "workhook.db",
    ]  # fmt: skip
    for each in (made, *made.rglob("*")):
        assert stat.S_IMODE(each.stat().st_mode) == (0o700 if each.is_dir() else 0o600), each
    manifest = json.loads((made / "manifest.json").read_bytes())
    assert manifest["files"]["count"] == len(small.files)
    assert manifest["files"]["bytes"] == sum(map(len, small.files.values()))
    assert manifest["database"]["rows"]["files"] == len(small.files)
    assert manifest["schema"] == small.cli.json("migrate")["schema"]
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=made, check=True, capture_output=True)


def test_the_key_is_not_in_a_backup_by_default(small: Small, tmp_path: Path) -> None:
    said = small.cli.run("backup", str(tmp_path / "backup")).stdout
    assert "The secret key is not in it" in said
    assert not (tmp_path / "backup" / "secret.key").exists()
    key = (small.data / "secret.key").read_bytes()
    for each in (tmp_path / "backup").rglob("*"):
        assert each.is_dir() or key.strip() not in each.read_bytes()
    said = small.cli.run("backup", str(tmp_path / "second"), "--with-key").stdout
    assert f"The secret key is in {tmp_path / 'second' / 'secret.key'}. Move it elsewhere" in said
    assert (tmp_path / "second" / "secret.key").read_bytes() == key

    without = nobody(tmp_path)
    done = without.run("restore", str(tmp_path / "backup"))
    assert done.returncode == 0, done.stderr
    assert f"Now put secret.key into {without.data}" in done.stdout
    with pytest.raises(AssertionError, match=r"secret\.key is missing"):
        Server(without.data, {}).start()
    shutil.copy(small.data / "secret.key", without.data)
    with running(without.data, {}) as server:
        small.check(server)


def test_restore_checks_an_existing_key(small: Small, made: Path, tmp_path: Path) -> None:
    (made / "secret.key").unlink()
    right, wrong = nobody(tmp_path, "right"), nobody(tmp_path, "wrong")
    right.data.mkdir()
    shutil.copy(small.data / "secret.key", right.data)
    assert right.json("restore", str(made))["key"] == "present"
    other = Small(tmp_path / "other", {})
    wrong.data.mkdir()
    shutil.copy(other.data / "secret.key", wrong.data)
    assert "is not the key that the backup was made with" in wrong.refused("restore", str(made))
    assert [each.name for each in wrong.data.iterdir()] == ["secret.key"]
    said = nobody(tmp_path).refused("restore", str(made), WORKHOOK_SECRET_KEY="k" * 40)
    assert "WORKHOOK_SECRET_KEY is not the key" in said


def test_a_key_from_the_settings_is_backed_up_and_restored(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "data", {"secret_key": "a-key-of-the-settings-which-is-long"})
    cli.setup()
    cli.json("backup", str(tmp_path / "backup"), "--with-key")
    restored = nobody(tmp_path)
    assert restored.json("restore", str(tmp_path / "backup"))["key"] == "restored"
    assert restored.json("user", "list")


@pytest.mark.whole
def test_files_in_a_bucket_are_backed_up_and_restored(sqlite: Databases, s3: S3, tmp_path: Path) -> None:
    with served(tmp_path, sqlite, files_url=s3.url) as (small, _):
        answer = small.cli.json("backup", str(tmp_path / "backup"), "--with-key")
    assert (answer["files"], answer["missing"]) == (len(small.files), [])
    assert len(s3.object_names()) == len(small.files)
    nobody(tmp_path).json("restore", str(tmp_path / "backup"))
    with running(tmp_path / "restored", {}) as server:
        small.check(server)
    elsewhere = {"files_url": f"{s3.url}/another"}
    nobody(tmp_path, "bucket", **elsewhere).json("restore", str(tmp_path / "backup"))
    assert len([each for each in s3.object_names() if "/another/" in each]) == answer["files"]
    assert [each for each in (tmp_path / "bucket").rglob("*") if each.name.startswith("blb_")] == []


def test_a_missing_or_damaged_file_is_reported(small: Small, tmp_path: Path) -> None:
    lost, changed = sorted(each for each in (small.data / "files").rglob("blb_*") if each.stat().st_size)
    lost.unlink()
    changed.write_bytes(bytes(changed.stat().st_size))
    done = small.cli.run("backup", str(tmp_path / "backup"), "--with-key", "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["missing"], answer["damaged"]) == (0, [lost.name], [changed.name])
    assert "missing in the file store: 1 file of the database" in done.stderr
    assert "with different content in the file store: 1 file of the database" in done.stderr
    assert nobody(tmp_path).json("restore", str(tmp_path / "backup"))["missing"] == [lost.name]


# --- refused ----------------------------------------------------------------------------------------------------------


def test_backup_and_restore_need_an_empty_target(small: Small, made: Path, tmp_path: Path) -> None:
    assert f"{made} is not empty" in small.cli.refused("backup", str(made))
    assert small.cli.run("backup", str(tmp_path / "quiet"), "--json").stderr == ""  # cron would mail it
    empty = nobody(tmp_path, "without-accounts")
    empty.data.mkdir()
    assert empty.run("migrate").returncode == 0
    assert "contains no accounts" in empty.refused("backup", str(tmp_path / "nothing"))
    assert "is not a folder" in small.cli.refused("backup", str(made / "manifest.json"))
    assert f"the data folder {small.data} is not empty" in small.cli.refused("restore", str(made))
    url = f"sqlite:///{small.data / 'workhook.db'}"
    said = nobody(tmp_path).refused("restore", str(made), "--database-url", url)
    assert "already exists" in said
    (tmp_path / "empty").mkdir(mode=0o755)
    small.cli.json("backup", str(tmp_path / "empty"))
    assert stat.S_IMODE((tmp_path / "empty").stat().st_mode) == 0o700


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_a_postgresql_database_with_data_is_refused(backend: Databases, made: Path, tmp_path: Path) -> None:
    settings = backend.new(tmp_path / "unused")
    cli = nobody(tmp_path, **settings)
    _ask(settings["database_url"], "INSERT INTO probe VALUES (1, 1)")
    assert "is not empty: probe has rows" in cli.refused("restore", str(made))
    assert not cli.data.exists()
    settings = backend.empty(tmp_path / "unused")
    _ask(settings["database_url"], "CREATE TABLE other (id int)")
    assert "has tables (other)" in nobody(tmp_path, **settings).refused("restore", str(made))


def test_a_backup_without_data_is_refused(tmp_path: Path) -> None:
    said = nobody(tmp_path).refused("backup", str(tmp_path / "backup"))
    assert "contains no Workhook data" in said
    assert not (tmp_path / "backup").exists()


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_damaged_backup_is_not_restored(made: Path, tmp_path: Path) -> None:
    cli = nobody(tmp_path)
    file = max(made.rglob("blb_*"), key=lambda each: each.stat().st_size)
    for each in (made / "workhook.db", made / "SHA256SUMS", file):
        whole = each.read_bytes()
        _flip(each)
        assert f"{each} has changed since the backup" in cli.refused("restore", str(made))
        each.unlink()
        assert f"{each} is missing" in cli.refused("restore", str(made))
        each.write_bytes(whole)
    manifest = made / "manifest.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[: len(whole) // 2])
    assert "is damaged" in cli.refused("restore", str(made))
    assert "does not exist" in cli.refused("restore", str(tmp_path / "nowhere"))
    assert not cli.data.exists()
    manifest.write_bytes(whole)
    assert cli.json("restore", str(made))


def test_a_backup_of_a_newer_version_names_the_version_to_install(made: Path, tmp_path: Path) -> None:
    path, cli = made / "manifest.json", nobody(tmp_path)
    manifest = json.loads(path.read_bytes())
    path.write_text(json.dumps({**manifest, "schema": "9999", "workhook": "7.1.0"}))
    said = cli.refused("restore", str(made))
    assert "the backup has schema 9999" in said
    assert "Install Workhook 7.1.0" in said
    path.write_text(json.dumps({"format": 2, "more": "that nobody knows yet"}))
    assert "was created by a newer version of Workhook" in cli.refused("restore", str(made))


def test_a_database_of_another_schema_is_not_backed_up(small: Small, tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(small.data / "workhook.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0003'")
    connection.close()
    said = small.cli.refused("backup", str(tmp_path / "backup"))
    assert "the database has schema 0003" in said
    assert "workhook migrate" in said


def test_every_command_refuses_a_database_whose_restore_was_interrupted(made: Path, tmp_path: Path) -> None:
    cli = nobody(tmp_path)
    cli.json("restore", str(made))
    set_revision(cli.data / "workhook.db", RESTORING)
    assert "its restore was interrupted" in cli.refused("user", "list")
    assert "its restore was interrupted" in cli.refused("backup", str(tmp_path / "again"))
    with pytest.raises(AssertionError, match="its restore was interrupted"):
        Server(cli.data, {}).start()


# --- interrupted ------------------------------------------------------------------------------------------------------

_WAITS = """
SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def _ask(url: str, query: str) -> Any:
    async def fetch() -> Any:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    return finish(fetch)


@pytest.mark.variants("number")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_an_interrupted_backup_cannot_be_restored(backend: Databases, number: signal.Signals, tmp_path: Path) -> None:
    """The test locks a table that is copied late, and stops the command while it waits for the lock."""
    import asyncio

    small = Small(tmp_path / "data", backend.new(tmp_path / "data"))
    folder, url = tmp_path / "backup", small.settings["database_url"]
    with asyncio.Runner() as runner:
        holder = runner.run(asyncpg.connect(url))
        runner.run(holder.execute("BEGIN"))
        runner.run(holder.execute("LOCK TABLE timesheets IN ACCESS EXCLUSIVE MODE"))
        process, output = forge.start(("backup", str(folder)), small.cli.environment)
        until(lambda: runner.run(holder.fetchval(_WAITS)))
        process.send_signal(number)
        status = process.wait(60)
        with output:
            said = output.read()
        runner.run(holder.execute("ROLLBACK"))
        runner.run(holder.close())
    assert "Traceback" not in said
    if number == signal.SIGINT:
        assert status == 130
        assert f"{folder} does not contain a complete backup and can be deleted." in said
    assert "is not a complete backup" in nobody(tmp_path).refused("restore", str(folder))
    assert f"{folder} is not empty" in small.cli.refused("backup", str(folder))
    shutil.rmtree(folder)
    assert small.cli.json("backup", str(folder))


@pytest.mark.variants("number")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_restore_cannot_be_served(made: Path, number: signal.Signals, tmp_path: Path) -> None:
    """The command is stopped while it sends files to a bucket that accepts the connection but never answers."""
    cli = nobody(tmp_path, files_url="s3://files/restored")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        bucket = {"ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}", "REGION": "us-east-1"}
        access = {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret"}
        environment = cli.environment | {f"AWS_{name}": value for name, value in {**bucket, **access}.items()}
        silent.settimeout(WAIT_S)
        process, output = forge.start(("restore", str(made)), environment)
        connection, _ = silent.accept()
        with connection:
            process.send_signal(number)
            status = process.wait(60)
        with output:
            said = output.read()
    assert "Traceback" not in said
    if number == signal.SIGINT:
        assert status == 130
        assert f"The data in {cli.data} is incomplete. Delete it, but keep secret.key." in said
    with pytest.raises(AssertionError, match="its restore was interrupted"):
        Server(cli.data, {}).start()
    assert "is not empty" in cli.refused("restore", str(made))
    shutil.rmtree(cli.data)
    assert nobody(tmp_path).json("restore", str(made))


# The maximum size of a written file: smaller than a file of the studio, or than its database.
@pytest.mark.variants("room", "with_files")
@pytest.mark.parametrize(("room", "with_files"), [(1_300_000, True), (300_000, False)])
def test_a_full_disk_is_reported(small: Small, tmp_path: Path, room: int, with_files: bool) -> None:
    if not with_files:
        with running(small.data, {}) as server, server.client(small.token) as client:
            for each in small.files:
                client.delete(f"/api/v1/files/{each}").raise_for_status()
        small = Small(tmp_path / "other", {})
    folder = tmp_path / "backup"
    done = subprocess.run(
        [sys.executable, "-m", "workhook", "backup", str(folder)],
        env=small.cli.environment,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert str(folder) in done.stderr
    assert "space" in done.stderr
    assert "is not a complete backup" in nobody(tmp_path).refused("restore", str(folder))
