"""Record a database filled by a release: `python -m tests.migrations.record VERSION WHEEL`, run once for each release.

The server in the wheel gets a request for every operation. `released/VERSION.rows.json.xz` then contains every row,
every file and every response to a GET. `test_upgrade` expects the same responses from later versions.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import re
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
from packaging.version import Version

from scripts.release_schema import RELEASED
from tests.recorded.recorder import Recorder
from tests.recorded.server import Tree, receiving
from tests.recorded.things import Things
from tests.recorded.variations import STREAM, Attempts, operations

UNREACHABLE = "http://127.0.0.1:9"
EVENTS = "/webhook-events"  # the catalog of the version, which later ones reword
REPOSITORY = "/repos/acme/website"
_SKIPPED = re.compile(r"alembic_version|sqlite_|search_")
_CHANGING = re.compile(r"/(metrics|rate_limit|zen|meta|versions|openapi|audit-log|signed)|/download$|/readyz|/healthz")
"""Paths whose responses differ between requests or versions."""
_CALLERS = ("owner", "pat", "stranger", "client", "client of the app")
"""Callers whose credentials do not expire."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))?")
_LOCAL = re.compile(r"http://127\.0\.0\.1:\d+")
_LARGE = 1_000_000_000  # larger numbers are times
_VOLATILE = {
    "bytes", "duration", "elapsed_time", "formatted_duration", "last_response", "last_used_at", "next_cursor",
    "request_id", "short_formatted_duration", "throttled_at",
}  # fmt: skip


def record(version: str, wheel: Path) -> Path:
    """Fill a database with the server in `wheel`, and return the new file."""
    out = RELEASED / f"{version}.rows.json.xz"
    with tempfile.TemporaryDirectory() as folder, receiving() as receiver:
        base = Path(folder)
        with zipfile.ZipFile(wheel) as file:
            file.extractall(base / "src")
        tree, data = Tree(base, base / "data"), base / "data"
        people = Things.people(tree.run)
        with tree.serving() as address, Recorder(address, receiver, io.StringIO()) as recorder:
            document = recorder.look("/openapi.json", "").json()
            things = Things(recorder, receiver, people)
            asked = list(_ask_everything(recorder, things, document))
            owed = _owe(things)
            callers = {name: things.by[name] for name in _CALLERS}
            with httpx.Client(base_url=address, timeout=60) as client:
                answers = [[by, path, *answer(client, callers[by], path)] for by, path in asked]
        made = {
            "made_by": f"Workhook {version}",
            "callers": callers,
            "receiver": receiver,
            "owed": owed,
            "answers": answers,
            "files": dict(_files(data)),
            "tables": dict(_rows(data / "workhook.db")),
        }
    with lzma.open(out, "xt", encoding="utf-8") as file:  # never overwrite
        json.dump(made, file, ensure_ascii=False)
    return out


def _ask_everything(recorder: Recorder, things: Things, document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Send a good request for every operation, and yield each GET as its caller and path.

    GETs come last, so that nothing they return is deleted afterwards.
    """
    for operation in sorted(operations(document), key=lambda each: each.method == "GET"):
        if operation.path in (STREAM, EVENTS):
            continue
        attempts = Attempts(recorder, things, operation)
        request = attempts.ask("good").request
        if operation.method == "GET" and attempts.good.by in _CALLERS and not _CHANGING.search(operation.path):
            yield attempts.good.by, request.url.raw_path.decode()


def _owe(things: Things) -> str:
    """Publish an event for a receiver that cannot be reached, and return the GUID of its delivery."""
    config = {"url": UNREACHABLE, "content_type": "json"}
    hook = things.post(f"{REPOSITORY}/hooks", name="web", events=["repository_dispatch"], config=config)["id"]
    things.post(f"{REPOSITORY}/dispatches", event_type="owed", client_payload={"n": 1})
    found = things.until(
        f"{REPOSITORY}/hooks/{hook}/deliveries",
        lambda listed: [each for each in listed if each["event"] == "repository_dispatch"],
    )
    return str(next(each["guid"] for each in found if each["event"] == "repository_dispatch"))


def answer(client: httpx.Client, caller: str, path: str) -> tuple[int, Any]:
    """Return the status and body of a GET, without times, ports and other values that differ between servers."""
    response = client.get(path, headers={"Authorization": caller})
    kind = response.headers.get("content-type", "")
    body: Any = kind
    if "json" in kind and response.content:
        body = _stable(response.json())
    return response.status_code, body


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _stable(each) for name, each in value.items() if name not in _VOLATILE}
    if isinstance(value, list):
        return [_stable(each) for each in value]
    if isinstance(value, str):
        return _LOCAL.sub("http://HOST", _TIME.sub("<time>", value))
    return "<time>" if isinstance(value, int) and abs(value) >= _LARGE else value


def _files(data: Path) -> Iterator[tuple[str, str]]:
    """Yield every file outside the database: its path and its bytes in hexadecimal."""
    for path in sorted(data.rglob("*")):
        if path.is_file() and not path.name.startswith("workhook.db"):
            yield str(path.relative_to(data)), path.read_bytes().hex()


def _rows(database: Path) -> Iterator[tuple[str, Any]]:
    """Yield every table with its columns and rows. Bytes become objects with the key `hex`."""
    with closing(sqlite3.connect(database)) as connection:
        names = connection.execute("SELECT name FROM pragma_table_list WHERE type = 'table' ORDER BY name").fetchall()
        for (name,) in names:
            if not _SKIPPED.match(name):
                rows = connection.execute(f'SELECT * FROM "{name}" ORDER BY 1')
                columns = [each[0] for each in rows.description]
                yield name, [columns, [[_plain(value) for value in row] for row in rows]]


def _plain(value: Any) -> Any:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.migrations.record", description="Record a release's data.")
    parser.add_argument("version", type=Version, help="the released version, such as 0.2.0")
    parser.add_argument("wheel", type=Path, help="the release's wheel")
    chosen = parser.parse_args()
    print(record(str(chosen.version), chosen.wheel))
