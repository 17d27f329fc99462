"""Databases filled by the servers of released versions are upgraded.

`released/VERSION.rows.json.xz` contains what `record` recorded: every row and file, and the responses to GETs.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from scripts.release_schema import RELEASED
from tests.harness.databases import Databases
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import finish, until
from tests.migrations.record import UNREACHABLE, answer
from tests.migrations.upgrade_kit import make_database, on_database
from tests.recorded.compare import compared
from workhook.bootstrap import import_tables
from workhook.core.clock import now_ms
from workhook.core.config import load
from workhook.storage import migrate

pytestmark = pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
RECORDED = sorted(path.name.removesuffix(".rows.json.xz") for path in RELEASED.glob("*.rows.json.xz"))
_TIME = 10**12  # no other integer in a row is as large
_INSERTED_BY_TRIGGERS = "task_order_%", "timesheet_sums_%"


def _value(column: sa.Column[Any], value: Any, later: int) -> Any:
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"])
    if isinstance(column.type, sa.Boolean) and value is not None:
        return bool(value)
    return value + later if isinstance(value, int) and value > _TIME else value


class Upgraded:
    """A server of this version started on a database filled by an earlier one."""

    def __init__(self, backend: Databases, folder: Path, version: str, receiver: Receiver) -> None:
        with lzma.open(RELEASED / f"{version}.rows.json.xz", "rt", encoding="utf-8") as file:
            self.recorded: dict[str, Any] = json.load(file)
        self._receiver = receiver.url.removesuffix("/hook")
        settings = make_database(backend, folder, version)
        for path, content in self.recorded["files"].items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(bytes.fromhex(content))
            target.chmod(0o600)
        on_database(settings, self._fill)
        self.server = Server(folder, settings)

    def _fill(self, connection: sa.Connection) -> None:
        """Insert the rows without the triggers that would count them again.

        Shift all times so that the last one is now.
        """
        tables: dict[str, tuple[list[str], list[list[Any]]]] = self.recorded["tables"]
        there = sa.MetaData()
        there.reflect(connection, only=lambda name, _: name in tables)
        later = now_ms() - max(row[tables["events"][0].index("created_at")] for row in tables["events"][1])
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        triggers = self._drop_triggers(connection) if connection.dialect.name == "sqlite" else []
        for table in there.sorted_tables:
            columns, rows = tables[table.name]
            values = [{name: _value(table.c[name], row[n], later) for n, name in enumerate(columns)} for row in rows]
            if table.name == "hooks":
                for each in values:
                    for address in (self.recorded["receiver"], UNREACHABLE):
                        each["config"] = each["config"].replace(address, self._receiver)
            if values:
                connection.execute(sa.insert(table), values)
            key = table.autoincrement_column
            if connection.dialect.name == "postgresql" and key is not None:
                sequence = sa.func.pg_get_serial_sequence(table.name, key.name)
                connection.execute(sa.select(sa.func.setval(sequence, 1_000_000)).where(sequence.is_not(None)))
        for statement in triggers:
            connection.exec_driver_sql(statement)

    def _drop_triggers(self, connection: sa.Connection) -> Sequence[str]:
        found = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND (name LIKE ? OR name LIKE ?)"
        triggers = connection.exec_driver_sql(found, _INSERTED_BY_TRIGGERS).all()
        for name, _ in triggers:
            connection.exec_driver_sql(f"DROP TRIGGER {name}")
        return [statement for _, statement in triggers]


@pytest.fixture(params=RECORDED)
def upgraded(
    request: pytest.FixtureRequest, backend: Databases, tmp_path: Path, receiver: Receiver
) -> Iterator[Upgraded]:
    made = Upgraded(backend, tmp_path, request.param, receiver)
    made.server.start()
    yield made
    made.server.close()


# Later versions may add fields. These values have changed because typed clients reject the old ones.
_COMPATIBLE = re.compile(r': "\(absent\)" → | ▸ (avatar_url: "" → "|blog: null → ""$|pushed_at: null → ")')


def test_responses_are_the_same_after_an_upgrade(upgraded: Upgraded) -> None:
    recorded = upgraded.recorded
    differences: list[str] = []
    with upgraded.server.client(None) as client:
        for by, path, *expected in recorded["answers"]:
            found = list(answer(client, recorded["callers"][by], path))
            differences += compared(f"{by} {path}", expected, found)
    assert [each for each in differences if not _COMPATIBLE.search(each)] == []


def test_deliveries_continue_after_an_upgrade(upgraded: Upgraded, receiver: Receiver) -> None:
    recorded = upgraded.recorded
    until(lambda: recorded["owed"] in {each.guid for each in receiver.requests})
    with upgraded.server.client(None, headers={"Authorization": recorded["callers"]["owner"]}) as client:
        hook = client.get("/orgs/acme/hooks").json()[0]["id"]
        hooks = f"/orgs/acme/hooks/{hook}/deliveries"
        old = client.get(hooks).json()[-1]
        sent = client.get(f"{hooks}/{old['id']}").json()["request"]
        assert client.post(f"{hooks}/{old['id']}/attempts").status_code == 202
        again = until(lambda: [each for each in receiver.requests if each.guid == old["guid"]])[0]
        # The key stored with the database decrypts the webhook's secret.
        assert again.headers["x-hub-signature-256"] == sent["headers"]["X-Hub-Signature-256"]


def test_a_database_is_upgraded_once(upgraded: Upgraded) -> None:
    known = load(upgraded.server.settings, {})
    assert not finish(lambda: migrate.migrate(known.sqlite_path, known.database_url, import_tables))
