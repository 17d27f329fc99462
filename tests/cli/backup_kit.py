"""A studio with a task, files and a webhook with a secret, to back up and restore."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import httpx

from tests.cli.cli_kit import Cli
from tests.harness.databases import Databases
from tests.harness.server import Server


class Small:
    """A small studio. `cli` runs commands on its data, and `files` maps file IDs to contents."""

    def __init__(self, data: Path, settings: dict[str, str]) -> None:
        self.cli = Cli(data, settings)
        made = self.cli.setup("--project", "Website")
        self.settings, self.data = settings, data
        self.token, self.project = str(made["token"]), f"/api/v1/projects/{made['project_id']}"
        self.files: dict[str, bytes] = {}

    def copied(self, data: Path) -> Small:
        """Return the same studio, copied to another folder."""
        other = copy(self)
        other.data = shutil.copytree(self.data, data)
        other.cli, other.files = Cli(data, self.settings), dict(self.files)
        return other

    def fill(self, server: Server, *, files: int = 3) -> None:
        with server.client(self.token) as client:
            column = post(client, f"{self.project}/columns", json={"title": "To do"})["column"]["id"]
            self.column = str(column)
            self.task = str(self.add_task(client, "needle")["id"])
            for number in range(files):
                self.upload(client, os.urandom(number * 700_000))
            hook = {"config": {"url": "http://127.0.0.1:9/", "secret": "a secret of the hook"}, "events": ["push"]}
            self.hook = str(post(client, "/repos/acme/website/hooks", json=hook)["id"])

    def add_task(self, client: httpx.Client, title: str) -> Any:
        return post(client, f"/api/v1/columns/{self.column}/tasks", json={"title": title})["task"]

    def upload(self, client: httpx.Client, data: bytes) -> None:
        made = post(client, f"{self.project}/files", files={"file": ("a.bin", data)})["file"]
        self.files[made["id"]] = data

    def check(self, server: Server) -> None:
        """Check that everything is there, searchable and usable, and that more can be added."""
        with server.client(self.token) as client:
            found = client.get("/api/v1/search", params={"q": "needle"}).raise_for_status().json()
            assert self.task in str(found)
            for file_id, data in self.files.items():
                assert client.get(f"/api/v1/files/{file_id}/content").raise_for_status().content == data
            hook = f"/repos/acme/website/hooks/{self.hook}"
            assert client.get(hook).raise_for_status().json()["config"]["secret"] == "********"
            assert client.post(f"{hook}/pings").status_code == 204  # signed with the restored secret
            self.add_task(client, "another")
            self.upload(client, b"more")


def post(client: httpx.Client, path: str, **more: Any) -> Any:
    answer = client.post(path, **more)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


@contextmanager
def running(data: Path, settings: dict[str, str]) -> Iterator[Server]:
    server = Server(data, settings).start()
    try:
        yield server
    finally:
        server.close()


@contextmanager
def served(folder: Path, backend: Databases, **settings: str) -> Iterator[tuple[Small, Server]]:
    """Yield a filled studio and its running server."""
    small = Small(folder / "data", {**backend.new(folder / "data"), **settings})
    with running(small.data, small.settings) as server:
        small.fill(server)
        yield small, server
