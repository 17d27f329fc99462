"""A database that an earlier version has filled is upgraded, and goes on where it was.

`filled_0058.json` holds rows that a version with schema 0058 wrote: a repository with two hooks. One was sent a
ping and an event; the other could not be reached, and its event waits for the next attempt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import finish, until
from tests.migrations.upgrade_kit import VERSIONS, make_database, on_database
from workhook.bootstrap import import_tables
from workhook.core.clock import now_ms
from workhook.core.config import load
from workhook.storage import migrate

pytestmark = pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
FILLED = json.loads(Path(__file__).with_name("filled_0058.json").read_text())
_A_TIME = 10**12  # no other number in it is as large


def _value(column: sa.Column[Any], value: Any, later: int) -> Any:
    if isinstance(value, str) and isinstance(column.type, sa.LargeBinary):
        return bytes.fromhex(value.removeprefix("hex:")) if value.startswith("hex:") else value.encode()
    if isinstance(column.type, sa.Boolean):
        return bool(value)
    return value + later if isinstance(value, int) and value > _A_TIME else value


def _fill(connection: Any, url: str) -> None:
    """`url`: where the hooks are to be reached from now on. All of it happened up to now."""
    tables = FILLED["tables"]
    times = [value for rows in tables.values() for row in rows for value in row.values() if isinstance(value, int)]
    later = now_ms() - max(times)
    there = sa.MetaData()
    there.reflect(connection)
    for table in there.sorted_tables:
        for row in tables.get(table.name, ()):
            values = {name: _value(table.c[name], value, later) for name, value in row.items()}
            if table.name == "hooks":
                values["config"] = json.dumps({"url": url, "content_type": "json"})
            connection.execute(sa.insert(table).values(values))
        if connection.dialect.name == "postgresql" and table.autoincrement_column is not None:
            key = table.autoincrement_column.name
            number = sa.select(sa.func.setval(sa.func.pg_get_serial_sequence(table.name, key), 100))
            connection.execute(number)


@pytest.fixture
def upgraded(backend: Databases, tmp_path: Path, receiver: Receiver) -> Iterator[Server]:
    """A server of this version that was started on the database of the earlier one."""
    settings = make_database(backend, tmp_path, VERSIONS[0])
    key = tmp_path / "secret.key"
    key.write_text(FILLED["secret_key"])
    key.chmod(0o600)
    on_database(settings, lambda connection: _fill(connection, receiver.url))
    server = Server(tmp_path, settings).start()
    yield server
    server.close()


def test_what_was_there_is_there_and_goes_on(upgraded: Server, receiver: Receiver) -> None:
    [owed] = receiver.wait_for(1)
    waiting = [row for row in FILLED["tables"]["dispatches"] if row.get("next_attempt_at")]
    assert [owed.guid] == [row["guid"] for row in waiting], "what was due is sent, under the id that it had"
    assert owed.payload()["client_payload"] == {"n": 0}

    hooks = f"/repos/{FILLED['repository']}/hooks"
    with upgraded.client(FILLED["token"]) as client:
        # What is sent again is what was sent then, down to the signature: the key opens the secret.
        shown = {each["id"]: each["config"] for each in client.get(hooks).json()}
        assert [config.get("secret") for _, config in sorted(shown.items())] == ["********", None]
        old = client.get(f"{hooks}/1/deliveries").json()
        assert [(each["event"], each["status"]) for each in old] == [("repository_dispatch", "OK"), ("ping", "OK")]
        whole = client.get(f"{hooks}/1/deliveries/{old[0]['id']}").json()
        assert whole["request"]["payload"]["client_payload"] == {"n": 0}
        assert client.post(f"{hooks}/1/deliveries/{old[0]['id']}/attempts").status_code == 202
        again = next(each for each in receiver.wait_for(2) if each is not owed)
        assert again.guid == old[0]["guid"]
        assert again.headers["x-hub-signature-256"] == whole["request"]["headers"]["X-Hub-Signature-256"]
        until(lambda: [each["status"] for each in client.get(f"{hooks}/2/deliveries").json()][:1] == ["OK"])

        project = FILLED["tables"]["projects"][0]["id"]
        listed = client.get(f"/api/v1/projects/{project}/activity").json()["activity"]
        assert [each["event"] for each in listed] == ["repository_dispatch"], "a ping is no news of the project"
        column = client.post(f"/api/v1/projects/{project}/columns", json={"title": "To do"}).json()["column"]
        task = client.post(f"/api/v1/columns/{column['id']}/tasks", json={"title": "Upgrade"}).json()["task"]
        found = client.get("/api/v1/search", params={"q": "upgrade"}).json()["results"]
        assert task["id"] in json.dumps(found)
    assert len({each.guid for each in receiver.wait_for(2 + 2 * 2)}) == 2 + 2 * 2


def test_it_is_upgraded_once(upgraded: Server) -> None:
    known = load(upgraded.settings, {})
    assert not finish(lambda: migrate.migrate(known.sqlite_path, known.database_url, import_tables))
