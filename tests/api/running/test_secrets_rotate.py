"""`workhook secrets rotate`: beside running servers, after being killed, and with the key in the settings."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from cryptography.fernet import Fernet, InvalidToken

from tests.api.wire import Api, Place
from tests.harness import forge
from tests.harness.concurrent_transactions import held
from tests.harness.databases import Databases
from tests.harness.receiver import Received, Receiver
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S, until
from workhook.cli.reencrypt import BATCH, SEALED
from workhook.core.vault import KEY_FILE, new_key, read_keys, write_keys
from workhook.hooks.schemas import HOOK_COLUMNS
from workhook.hooks.tables import hooks
from workhook.http.calls import Services
from workhook.identity import actions as identity_actions
from workhook.storage.metadata import insert_into

_insert = insert_into(hooks, *(name for name in HOOK_COLUMNS if name != "id")).returning(hooks.c.id)
HOOKS_MAX = 100  # webhooks created meanwhile; the last one is changed until the command ends
BEHIND_MAX = 200  # pending deliveries while pushes are published

_BLANK = {
    **dict.fromkeys(HOOK_COLUMNS), "active": False, "events": "[]", "config": "{}", "version": 1, "created_at": 0,
    "updated_at": 0,
}  # fmt: skip


class Command:
    """`workhook secrets` with the settings of a server."""

    def __init__(self, server: Server, **more: str) -> None:
        self.environment = server.environment() | {f"WORKHOOK_{name.upper()}": value for name, value in more.items()}
        self.path = server.data / KEY_FILE

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "workhook", "secrets", "rotate", *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def rotate(self, *words: str) -> Any:
        """Run a command that must succeed, and return its JSON output."""
        done = forge.run(["secrets", "rotate", "--json", *words], self.environment, timeout_s=90)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def refused(self) -> str:
        """Run a command that must fail, and return its error output."""
        done = forge.run(["secrets", "rotate"], self.environment, timeout_s=90)
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr


def stored(server: Server) -> dict[str, bytes]:
    """Return every encrypted value by its location."""

    async def read(services: Services) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for table, names in SEALED.items():
            for row in await services.database.fetch_all(sa.select(table)):
                found |= {f"{table.name}.{name} {row['id']}": bytes(row[name]) for name in names if row[name]}
        return found

    values: dict[str, bytes] = server.run(read)
    return values


def opened_by(key: bytes, value: bytes) -> bool:
    try:
        Fernet(key).decrypt(value)
    except InvalidToken:
        return False
    return True


def opens_everything(key: bytes, server: Server) -> bool:
    """Return whether the key decrypts everything."""
    return all(opened_by(key, value) for value in stored(server).values())


@pytest.fixture
def idle(backend: Databases, tmp_path: Path) -> Server:
    """Return a server that is not running, for its data."""
    return Server(tmp_path, backend.new(tmp_path))


def add_hooks(server: Server, count: int) -> list[int]:
    """Create webhooks with a secret and a password each without starting a server, and return their IDs."""

    async def insert(services: Services) -> list[int]:
        vault, ids = services.vault, []
        async with services.database.transaction() as tx:
            owner = await identity_actions.create_account(tx, "user", "octo", name=None, email=None)
            for _ in range(count):
                sealed = {"secret": vault.seal("s3cret"), "password": vault.seal("passw0rd")}
                row = await tx.fetch_one(_insert, {**_BLANK, "account_id": owner.id, **sealed})
                assert row is not None
                ids.append(row["id"])
        return ids

    made: list[int] = server.run(insert)
    return made


def signed(received: Received, secret: str) -> bool:
    expected = "sha256=" + hmac.new(secret.encode(), received.body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(received.headers["x-hub-signature-256"], expected)


@pytest.fixture
def publishing(
    new_server: Callable[..., Server], receiver: Receiver
) -> Iterator[Callable[[Api, Place], threading.Event]]:
    """Return a function that publishes pushes until the returned event is set.

    On a slow machine, it publishes no faster than they are delivered.
    """
    running: list[tuple[threading.Thread, threading.Event]] = []

    def start(api: Api, place: Place) -> threading.Event:
        end = threading.Event()

        def run() -> None:
            asked = 0
            for number in itertools.count():
                if end.is_set():
                    break
                answer = api.post(f"{place.path}/events", json={"event": "push", "payload": {"number": number}})
                assert answer.status_code == 202, answer.text
                asked += answer.json()["deliveries"]
                receiver.wait_for(max(asked - BEHIND_MAX, 0))

        thread = threading.Thread(target=run)
        running.append((thread, end))
        thread.start()
        return end

    yield start
    for thread, end in running:
        end.set()
        thread.join()


def test_servers_keep_working_during_a_rotation(
    new_server: Callable[..., Server],
    receiver: Receiver,
    publishing: Callable[[Api, Place], threading.Event],
) -> None:
    """There are two processes, one of which only delivers.

    Webhooks are created and their secrets changed throughout.
    """
    server = new_server(command=("serve", "--port", "0", "--no-worker"))
    worker = new_server(command=("worker",))
    world, command = server.world(), Command(server)
    place = Place("repository", world)
    first = read_keys(command.path)
    with server.client(world.token) as client, server.client(world.token) as other:
        api = Api(client)
        config = {"content_type": "json", "username": "u", "password": "pass-1"}
        hook = api.hook(place, config={**config, "url": f"{receiver.url}/0", "secret": "secret-0"}, active=True)
        end = publishing(Api(other), place)
        receiver.wait_for(5)
        secrets = {"/hook/0": {"secret-0"}}
        process = command.start("--json")
        made = hook
        for number in itertools.count(1):
            if process.poll() is not None:
                break
            at = min(number, HOOKS_MAX)
            if f"/hook/{at}" not in secrets:
                first_secret = {**config, "url": f"{receiver.url}/{at}", "secret": f"secret-{at}"}
                made = api.hook(place, config=first_secret, active=True)
            secrets.setdefault(f"/hook/{at}", {f"secret-{at}"}).add(f"changed-{number}")
            changed = api.patch(f"{made['url']}/config", json={"secret": f"changed-{number}"})
            assert changed.status_code == 200
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert json.loads(out)["new_key"] is True
        [key] = read_keys(command.path)
        assert key not in first
        assert opens_everything(key, server)
        # The worker's cached secrets were decrypted long ago; a change forces it to decrypt the stored value.
        api.patch(f"{hook['url']}/config", json={"max_concurrency": "2"})
        end.set()
        count = len(receiver.events("push"))
        receiver.wait_for(lambda requests: len(requests) > count)
        late = api.post(f"{place.path}/events", json={"event": "push", "payload": {"last": True}}).json()
        assert late["deliveries"] == len(secrets)
        receiver.wait_for(
            lambda requests: (
                sum(each.event == "push" and each.payload().get("last", False) for each in requests) == len(secrets)
            ),
            timeout_s=3
            * WAIT_S,  # thousands may be queued before it: all the webhooks, and a push after every response
        )
    for each in receiver.requests:
        assert any(signed(each, secret) for secret in secrets[each.path]), each.path
        assert each.headers["authorization"].startswith("Basic ")
    for process_ in (server, worker):
        assert "secret_unreadable" not in process_.log()
        assert "Traceback" not in process_.log()
        assert process_.stop() == 0
    again = new_server()
    with again.client(world.token) as client:
        assert Api(client).get(f"/repos/{world.full_name}/hooks/{hook['id']}").status_code == 200


@pytest.mark.whole
def test_a_killed_rotation_is_completed_by_the_next_one(idle: Server) -> None:
    add_hooks(idle, 4 * BATCH)
    command = Command(idle)
    [old] = read_keys(command.path)
    keys: list[bytes] = []

    def killed_when(reached: Callable[[], bool]) -> None:
        process = command.start()
        until(lambda: reached() or process.poll() is not None)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        keys[:] = read_keys(command.path)

    with held(idle, "LOCK TABLE hooks IN SHARE MODE"):  # it creates its key, but gets no further until it is observed
        killed_when(lambda: len(read_keys(command.path)) == 2)
    assert len(keys) == 2
    new = keys[0]
    assert keys[1] == old
    killed_when(lambda: not opens_everything(old, idle))
    assert keys[0] == new, "it goes on with the key that it has made"
    assert all(opened_by(old, value) or opened_by(new, value) for value in stored(idle).values())
    if len(keys) == 2:  # otherwise it was too fast to observe
        assert command.rotate()["new_key"] is False
    assert read_keys(command.path) == [new]
    assert opens_everything(new, idle)
    assert len(stored(idle)) == 2 * 4 * BATCH + 1


def test_a_rotation_reports_kept_dropped_and_unreadable_keys(idle: Server) -> None:
    hook_id, _ = add_hooks(idle, 2)
    command = Command(idle)
    [old] = read_keys(command.path)
    assert command.rotate("--keep-old") == {"new_key": True, "resealed": 5, "unreadable": 0, "dropped_keys": 0}
    new, kept = read_keys(command.path)
    assert kept == old
    assert opens_everything(new, idle)
    assert command.rotate() == {"new_key": False, "resealed": 0, "unreadable": 0, "dropped_keys": 1}
    assert read_keys(command.path) == [new]
    # A newest key that was added manually, and a secret that no key decrypts.
    by_hand, foreign = new_key(), Fernet(new_key()).encrypt(b"lost")
    write_keys(command.path, [by_hand, new])

    async def spoil(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(sa.update(hooks).where(hooks.c.id == hook_id).values(secret=foreign))

    idle.run(spoil)
    assert command.rotate() == {"new_key": False, "resealed": 4, "unreadable": 1, "dropped_keys": 1}
    values = stored(idle)
    assert values.pop(f"hooks.secret {hook_id}") == foreign
    assert all(opened_by(by_hand, value) for value in values.values())
    folder = os.open(idle.data, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        assert "already in progress" in command.refused()
    finally:
        os.close(folder)
    assert read_keys(command.path) == [by_hand]


def test_a_key_in_the_settings_is_rotated_manually(idle: Server) -> None:
    """The command creates no key: it states what to do and re-encrypts the stored values."""
    old, new = "an-old-passphrase-that-is-long-enough", new_key().decode()
    idle.settings["secret_key"] = old
    add_hooks(idle, 1)
    assert "restart every process" in Command(idle).refused()
    idle.settings["secret_key"] = f"{new} {old}"
    assert Command(idle).rotate() == {"new_key": False, "resealed": 3, "unreadable": 0, "dropped_keys": 0}
    idle.settings["secret_key"] = new
    assert opens_everything(new.encode(), idle)
    assert not (idle.data / KEY_FILE).exists()


def test_a_rotation_is_in_the_audit_log(idle: Server) -> None:
    add_hooks(idle, 2)
    command = Command(idle)
    done = command.rotate()
    listed = subprocess.run(
        [sys.executable, "-m", "workhook", "audit", "list", "--action", "secrets", "--json"],
        env=command.environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    [entry] = json.loads(listed.stdout)
    assert (entry["action"], entry["target"], entry["org"], entry["data"]) == ("secrets.rotate", KEY_FILE, None, done)
