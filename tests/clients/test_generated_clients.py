"""Clients generated from the OpenAPI document are checked and used against the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.wire import Api, Place
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.world import World
from tests.node_tools import NODE_FOLDER, ensure_node_modules, node

pytestmark = pytest.mark.one_database

# Every module is imported, because a generator may write invalid Python.
PYTHON_PROGRAM = """\
import importlib, json, os, pathlib
for found in sorted(pathlib.Path("generated").rglob("*.py")):
    importlib.import_module(".".join(found.with_suffix("").parts))
from generated import AuthenticatedClient
from generated.api.repository_webhooks import repository_hooks_create
from generated.api.tasks import create_task
from generated.models import ConfigCreate, RepositoryHookCreate, RepositoryHookCreateEventsItem, TaskCreate
from generated.models import ConfigCreateContentTypeType0, ConfigCreateInsecureSslType0
client = AuthenticatedClient(base_url=os.environ["BASE_URL"], token=os.environ["TOKEN"])
config = ConfigCreate(
    url=os.environ["RECEIVER"],
    content_type=ConfigCreateContentTypeType0.JSON,
    insecure_ssl=ConfigCreateInsecureSslType0.VALUE_0,
)
body = RepositoryHookCreate(config=config, events=[RepositoryHookCreateEventsItem.TASK])
hook = repository_hooks_create.sync(os.environ["OWNER"], os.environ["REPO"], client=client, body=body)
made = create_task.sync(os.environ["COLUMN"], client=client, body=TaskCreate(title="Launch"))
print(json.dumps({"hook": hook.id, "content_type": hook.config.content_type, "events": hook.events,
                  "title": made.task.title, "id": made.task.id}))
"""


@pytest.fixture
def api(server: Server, world: World) -> Iterator[Api]:
    with server.client(world.token) as client:
        yield Api(client)


@pytest.fixture
def environment(api: Api, server: Server, world: World, receiver: Receiver) -> dict[str, str]:
    column = api.post(f"/api/v1/projects/{world.project_id}/columns", json={"title": "Doing"}).json()["column"]
    return {
        **os.environ,
        "BASE_URL": server.url,
        "TOKEN": world.token,
        "OWNER": world.organization,
        "REPO": world.repository,
        "COLUMN": str(column["id"]),
        "RECEIVER": receiver.url,
    }


@pytest.fixture
def document(api: Api, tmp_path: Path) -> Path:
    found = tmp_path / "openapi.json"
    found.write_bytes(api.get("/openapi.json").content)
    return found


def run_command(command: list[str | Path], folder: Path, environment: dict[str, str]) -> tuple[str, str]:
    """Run a command and return its output on both streams."""
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{ended.stdout[-5000:]}\n{ended.stderr[-5000:]}"
    return ended.stdout, ended.stderr


def expect_hook_and_task(api: Api, world: World, said: tuple[str, str], events: set[str]) -> None:
    made = json.loads(said[0])
    assert (made["content_type"], set(made["events"]), made["title"]) == ("json", events, "Launch")
    assert api.read(f"{Place('repository', world).hooks}/{made['hook']}")["config"]["insecure_ssl"] == "0"
    assert api.read(f"/api/v1/tasks/{made['id']}")["task"]["title"] == "Launch"


@pytest.mark.whole  # the Python client is generated from the same document
def test_a_generated_typescript_client_works(
    document: Path, environment: dict[str, str], api: Api, world: World, tmp_path: Path
) -> None:
    modules = ensure_node_modules()
    types = tmp_path / "api.d.ts"
    run_command([node(), modules / "openapi-typescript/bin/cli.js", document, "-o", types], tmp_path, environment)
    options = {"strict": True, "noEmit": True, "target": "es2022", "module": "esnext", "moduleResolution": "bundler",
               "moduleDetection": "force", "lib": ["es2022", "dom"], "types": [],
               "paths": {"workhook-api": [str(types)]}}  # fmt: skip
    program = NODE_FOLDER / "generated.mts"
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": [str(program)]}))
    run_command([node(), modules / "typescript/bin/tsc", "-p", tmp_path], tmp_path, environment)
    expect_hook_and_task(
        api, world, run_command([node(), program], NODE_FOLDER, environment), {"issues", "push", "task"}
    )


def test_a_generated_python_client_works(
    document: Path, environment: dict[str, str], api: Api, world: World, tmp_path: Path
) -> None:
    (tmp_path / "config.yml").write_text("post_hooks: []\n")
    command = (
        f"{sys.executable} -m openapi_python_client generate --config config.yml --output-path generated --meta none"
    )
    said = "".join(run_command([*command.split(), "--path", document], tmp_path, environment))
    assert "Endpoint will not be generated" not in said
    assert "Unable to process schema" not in said
    (tmp_path / "program.py").write_text(PYTHON_PROGRAM)
    expect_hook_and_task(api, world, run_command([sys.executable, "program.py"], tmp_path, environment), {"task"})
