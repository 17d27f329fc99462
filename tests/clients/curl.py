"""The program `curl` as a function, and fixtures for the tests that use it."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest

from tests.harness.server import Server
from tests.harness.world import World

NOWHERE = "http://127.0.0.1:9/"


@dataclass
class Said:
    """The output of curl."""

    status: int
    headers: dict[str, str]  # lower-case names
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json; charset=utf-8"
        return json.loads(self.body)


@dataclass
class Curl:
    """`curl` with an Authorization header, as in most API examples."""

    program: str
    url: str
    token: str | None
    scheme: str = "Bearer"
    data: str | None = None  # the option that passes a body; --data-binary if None

    def __call__(self, method: str, path: str, *arguments: str, body: object = None) -> Said:
        command = [self.program, "--silent", "--show-error", "--include", "--max-time", "60", *arguments]
        command += ["--expect100-timeout", "60"]  # otherwise it sends an unwanted large body after a second
        command += ["--head"] if method == "HEAD" else ["--request", method]
        if self.token:
            command += ["--header", f"Authorization: {self.scheme} {self.token}"]
        if body is not None:
            text = body if isinstance(body, str) else json.dumps(body)
            command += ["--data-binary", text]
        url = path if path.startswith("http") else self.url + path
        done = subprocess.run([*command, url], capture_output=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr.decode()
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 100 "):  # curl asks for permission to send a large body
            head, _, rest = rest.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return Said(int(status.split()[1]), headers, rest)


@pytest.fixture
def curl(server: Server, world: World) -> Curl:
    program = shutil.which("curl")
    assert program, "these tests need the program curl (Debian and Ubuntu: apt-get install curl)"
    return Curl(program, server.url, world.token)


@pytest.fixture(params=["repository", "organization"])
def root(request: pytest.FixtureRequest, world: World) -> str:
    return world.repo_path if request.param == "repository" else world.org_path


def create(curl: Curl, root: str, url: str, **more: Any) -> dict[str, Any]:
    config = {"url": url, **more.pop("config", {})}
    said = curl("POST", f"{root}/hooks", body={"name": "web", "config": config, **more})
    assert said.status == 201, said.body
    hook: dict[str, Any] = said.json
    assert said.headers["location"] == hook["url"]
    return hook


def hook_path(root: str, hook: dict[str, Any]) -> str:
    return f"{root}/hooks/{hook['id']}"
