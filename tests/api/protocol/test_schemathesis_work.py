"""Schemathesis checks the work API against the OpenAPI document with thousands of requests about existing objects."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.databases import Databases
from tests.harness.depth import deep
from tests.harness.server import Server
from tests.work.requests_kit import TABLE
from tests.work.scene import Scene
from tests.work.studio import Studio
from workhook.http.operations import Operation
from workhook.work.operations import OPERATIONS

STREAM = "follow_project"
HOOKS = Path(__file__).parent / "schemathesis_hooks.py"

# Every check runs on every operation, except where the contract itself rules it out:
# - NUL is invalid in every stored text. Stating this for every string would clutter the document.
# - The document does not limit the length of query strings, but the server limits the request target: 414.
# - A change with `If-Match` may return 412 for any body, valid or not.
# - A valid change may conflict with the current state, or with a rule about two fields together: 404, 409 and 422.
# - `object_level_authorization` compares two users; `test_matrix.py` does that for every operation.
# - A stream does not end; `test_stream.py` reads it.
CONFIGURATION = """
hooks = {hooks}
request-timeout = 60

[auth.openapi.bearer]
bearer = "{token}"

[generation]
allow-x00 = false
max-examples = {examples}

[phases.coverage]
unexpected-methods = ["PUT"]

[phases.stateful.generation]
max-examples = {scenarios}

[checks]
object_level_authorization.enabled = false
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 412, 414, 415, 422]
positive_data_acceptance.expected-statuses = ["2xx", 404, 409, 414, 422]

[[operations]]
include-method = "GET"
checks.positive_data_acceptance.expected-statuses = ["2xx", 304, 414]

[[operations]]
include-operation-id = "{stream}"
enabled = false
"""


class Things:
    """Existing objects, in a separate project for each method so that creations and deletions do not interfere."""

    def __init__(self, studio: Studio) -> None:
        self._owner, self._organization = studio.owner, studio.world.organization
        self._member = studio.member.login
        self._scenes = {method: self._scene() for method in ("GET", "POST", "PUT", "PATCH", "DELETE")}

    def _scene(self) -> Scene:
        made = self._owner.post("/projects", json={"title": "Website", "organization": self._organization})
        return Scene(self._owner, made["project"]["id"], self._organization, self._member)

    def known(self) -> dict[str, dict[str, Any]]:
        """Return parameter values by operation and name.

        A value that is valid only in combination with another parameter is None.
        """
        by_method = {method: self._known(scene) for method, scene in self._scenes.items()}
        known = {each.name: by_method[each.method] for each in OPERATIONS}
        scene = self._scenes["POST"]
        edit = {"action": "edit", "id": scene.task(), "title": "Edited"}
        create = {"action": "create", "column_id": scene.column(), "title": "Made"}
        return known | {
            "add_client": {"username": None},  # only for a newly created account
            "create_task_credit": {
                "amount": 2.5,
                "kind": "grant",
                "task_id": None,
                "expires_at": "2100-01-01T00:00:00Z",
            },
            "create_invoice": {"timesheet_ids": []},  # each can be on only one invoice
            "change_tasks": {"operations": [edit, create]},
        }

    def _known(self, scene: Scene) -> dict[str, Any]:
        people = dict.fromkeys(("username", "user", "actor", "assignee"), self._member)
        return people | {
            "assignees": [self._member],
            "organization": self._organization,
            "project_id": scene.project_id,
            "column_id": scene.column(),
            "task_id": scene.task(),
            "folder": scene.folder(),
            "service_id": scene.service(),
            "service_price_id": None,
            "timesheet_ids": [scene.timesheet()],
            "timezone": "Europe/Vienna",
            "cursor": None,
        }

    def parameters(self) -> Iterator[str]:
        """Yield the part of the configuration that sets path parameters."""
        for operation in OPERATIONS:
            if "{" in operation.path and operation.name != STREAM:
                yield f'[[operations]]\ninclude-operation-id = "{operation.name}"'
                yield from (f'parameters."path.{name}" = {json.dumps(value)}' for name, value in self._ids(operation))

    def _ids(self, operation: Operation) -> Iterator[tuple[str, object]]:
        key = f"{operation.method} {re.sub(r'{[^}]+}', '{}', operation.path)}"
        # An archived project cannot be changed.
        made: Callable[[Scene], object] = Scene.project if key == "PATCH /projects/{}" else TABLE[key][1]
        ids = made(self._scenes[operation.method])
        names = re.findall(r"\{(\w+)\}", operation.path)
        return zip(names, ids if isinstance(ids, tuple) else (ids,), strict=True)


@pytest.fixture
def server(backend: Databases, tmp_path: Path) -> Iterator[Server]:
    """Yield a server without a worker, so that nothing is sent to made-up URLs."""
    server = Server(tmp_path, backend.new(tmp_path), command=("serve", "--port", "0", "--no-worker")).start()
    yield server
    server.close()


def configure(server: Server, folder: Path) -> tuple[Path, dict[str, str]]:
    """Write Schemathesis' configuration, and return its path and the environment."""
    studio = Studio(server, server.world())
    things = Things(studio)
    known, configuration = folder / "things.json", folder / "schemathesis.toml"
    known.write_text(json.dumps(things.known()))
    effort = {"examples": deep(2, 40), "scenarios": deep(3, 80)}
    general = CONFIGURATION.format(hooks=json.dumps(str(HOOKS)), token=studio.world.token, stream=STREAM, **effort)
    configuration.write_text("\n".join([general, *things.parameters()]))
    studio.close()
    return configuration, {**os.environ, "WORKHOOK_TEST_THINGS": str(known)}


@pytest.mark.whole
@pytest.mark.one_database
@pytest.mark.timeout(deep(600, 3600))  # under a minute on an otherwise idle machine
def test_the_work_api_conforms_to_its_document(server: Server, tmp_path: Path) -> None:
    configuration, environment = configure(server, tmp_path)
    command = [str(Path(sys.executable).parent / "schemathesis"), "--config-file", str(configuration), "run"]
    options = ["--include-path-regex", "^/api/v1/", "--checks", "all", "--seed", "1", "--no-shrink"]
    options += ["--continue-on-failure", "--generation-database", "none", "--no-color"]
    ran = subprocess.run(
        [*command, f"{server.url}/openapi.json", *options],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    failed = server.log().partition("request_failed")[2]  # the reason, if a request was answered with 500
    assert ran.returncode == 0, f"{ran.stdout[-20_000:]}{ran.stderr[-2000:]}{failed[:10_000]}"
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert f"✅ {phase}" in ran.stdout, ran.stdout[-5000:]
    assert "request_failed" not in server.log()
