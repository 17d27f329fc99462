"""Schemathesis checks the webhook API and the system endpoints against the OpenAPI document with thousands of requests.

`test_schemathesis_work.py` does the same for the work API.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.apps import make_app
from tests.harness.databases import Databases
from tests.harness.depth import deep
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World

# Every check runs on every operation, except where the contract itself rules it out:
# - NUL is invalid in every stored text. Stating this for every string would clutter the document.
# - The document does not limit the length of query strings, but the server limits the request target: 414.
# - A change with `If-Match` may return 412 for any body, valid or not.
# - A valid request may get 422 if the current state does not allow it (the contract has no 409 in the webhook API):
#   a duplicate webhook, an `id` used for another event, a login the caller has no relation to, more than an
#   installation was granted, fields of the other kind of token, an app's name that is taken, its last key,
#   a URL that is not a valid callback, a phrase with an unknown qualifier, repositories both by name and by ID,
#   a single repository of an installation on all repositories, the last owner who leaves, an invitation without or
#   with two users.
# - Deleting the organization would end the run: `test_deleting_an_organization.py` does that.
# - `object_level_authorization` compares two users; `test_authorization.py` does that for every operation.
CONFIGURATION = """
request-timeout = 60

[auth.openapi.bearer]
bearer = "{token}"

[auth.openapi.app]
bearer = "{jwt}"

[auth.openapi.client]
username = "{client_id}"
password = "{client_secret}"

[parameters]
"path.client_id" = "{client_id}"
"path.installation_id" = {installation_id}
"path.token_id" = {token_id}
"path.slug" = "{slug}"
"path.owner" = "{organization}"
"path.repo" = "{repository}"
"path.org" = "{organization}"

[generation]
allow-x00 = false
max-examples = {examples}

[phases.stateful.generation]
max-examples = {scenarios}

[checks]
object_level_authorization.enabled = false
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 412, 414, 415, 422]
positive_data_acceptance.expected-statuses = ["2xx", 304, 403, 404, 409, 412, 414]

[[operations]]
include-operation-id = [
    "repository_hooks_create", "repository_hooks_update", "repository_hooks_update_config", "repository_events_publish",
    "organization_hooks_create", "organization_hooks_update", "organization_hooks_update_config",
    "organization_events_publish", "app_access_tokens_create", "tokens_create",
    "oauth_apps_create", "oauth_apps_update", "oauth_apps_create_secret",
    "apps_create", "apps_update", "apps_create_secret", "apps_create_key", "apps_delete_key",
    "installations_create", "installations_update",
    "oauth_token_scope", "user_installation_repositories_remove",
    "organization_members_remove", "organization_memberships_remove", "organization_invitations_create",
]
checks.positive_data_acceptance.expected-statuses = ["2xx", 403, 404, 414, 422]

[[operations]]
include-operation-id = ["organization_delete"]
enabled = false

[[operations]]
include-operation-id = ["organization_audit_log_list"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 304, 403, 404, 414, 422]
"""


@pytest.fixture
def server(backend: Databases, tmp_path: Path, receiver: Receiver) -> Iterator[tuple[Server, World]]:
    """Yield a server without a worker, so that nothing is sent to made-up URLs. It already has a delivery."""
    settings = backend.new(tmp_path)
    before = Server(tmp_path, settings).start()
    world = before.world()
    with before.client(world.token) as client:
        for path in (world.repo_path, world.org_path):
            hook = client.post(f"{path}/hooks", json={"name": "web", "config": {"url": receiver.url}}).json()
            until(lambda hook=hook: client.get(hook["deliveries_url"]).json())  # type: ignore[misc]  # called immediately
    before.stop()
    server = Server(tmp_path, settings, command=("serve", "--port", "0", "--no-worker")).start()
    yield server, world
    server.close()


@pytest.mark.whole
@pytest.mark.one_database
@pytest.mark.timeout(deep(600, 3600))  # under a minute on an otherwise idle machine
def test_the_server_conforms_to_its_document(server: tuple[Server, World], tmp_path: Path) -> None:
    running, world = server
    configuration = tmp_path / "schemathesis.toml"
    app = make_app(running, world)
    known = {"token": world.token, "organization": world.organization, "repository": world.repository}
    known |= {"client_id": app.client_id, "client_secret": app.secret, "jwt": app.jwt()}
    known["slug"] = make_app(running, world, installed=False).slug  # it gets deleted, unlike the app that authenticates
    with running.client(world.token) as client:  # likewise
        known["token_id"] = str(client.post("/user/tokens", json={}).json()["id"])
    # A number rather than a duration, so that slow machines try the same.
    effort = {"examples": deep(2, 40), "scenarios": deep(3, 80)}
    configuration.write_text(CONFIGURATION.format(**known, **effort, installation_id=app.installation_id))
    command = [str(Path(sys.executable).parent / "schemathesis"), "--config-file", str(configuration), "run"]
    options = ["--checks", "all", "--seed", "1", "--no-shrink"]
    options += ["--continue-on-failure", "--exclude-path-regex", "^/api/v1/"]
    ran = subprocess.run(
        [*command, f"{running.url}/openapi.json", *options, "--generation-database", "none", "--no-color"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, f"{ran.stdout[-20_000:]}{ran.stderr[-2000:]}"
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert f"✅ {phase}" in ran.stdout, ran.stdout[-5000:]
    assert "request_failed" not in running.log()
