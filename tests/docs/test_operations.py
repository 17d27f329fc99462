"""Several processes on one PostgreSQL database, started as documented, and a key rotation while they run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.docs.pages import Program, blocks, new_machine
from tests.harness.databases import Databases
from tests.harness.receiver import Receiver
from workhook.core import config, vault

[BLOCK] = blocks("docs/operators/postgresql.md", "sh")
ROTATION, NEW_KEY = blocks("docs/operators/keys.md", "sh")


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_one_process_serves_and_another_delivers(backend: Databases, receiver: Receiver, tmp_path: Path) -> None:
    export, serve, work = (line.partition("#")[0].strip() for line in BLOCK.splitlines())
    written = "export WORKHOOK_DATABASE_URL="
    assert export.startswith(written)
    environment = new_machine(tmp_path) | {
        "WORKHOOK_DATABASE_URL": backend.empty(tmp_path)["database_url"],
        "WORKHOOK_DATA": str(tmp_path / "data"),
        "WORKHOOK_DELIVERY_ALLOW_NETWORKS": "127.0.0.0/8",
    }
    setup = "workhook setup --organization acme --owner octo --email octo@example.com --project Website --json"
    made = subprocess.run(setup.split(), env=environment, capture_output=True, text=True, check=True)
    server = Program(["bash", "-c", f"exec {serve} --port 0"], tmp_path, environment)
    try:
        url = server.wait_for("listening on ").split()[-1]
        hook = {"config": {"url": receiver.url, "content_type": "json"}, "events": ["push"]}
        headers = {"Authorization": f"Bearer {json.loads(made.stdout)['token']}"}
        httpx.post(f"{url}/repos/acme/website/hooks", json=hook, headers=headers, timeout=60).raise_for_status()
        assert receiver.requests == []
        worker = Program(["bash", "-c", f"exec {work}"], tmp_path, environment)
        try:
            [ping] = receiver.wait_for(1)
            assert ping.event == "ping"
            backup = "workhook backup backups/monday"
            subprocess.run(backup.split(), cwd=tmp_path, env=environment, check=True, capture_output=True)
            assert (tmp_path / "backups" / "monday" / "manifest.json").exists()
            rotation = ["bash", "-ec", ROTATION.replace("/somewhere/safe", str(tmp_path))]
            subprocess.run(rotation, cwd=tmp_path, env=environment, check=True, capture_output=True)
            [copy] = tmp_path.glob("secret.key.*")
            assert copy.read_text() != (tmp_path / "data" / "secret.key").read_text()
            assert (tmp_path / "secret.key").read_text() == (tmp_path / "data" / "secret.key").read_text()
            event = {"event": "push", "payload": {}}
            httpx.post(f"{url}/repos/acme/website/events", json=event, headers=headers, timeout=60).raise_for_status()
            receiver.wait_for(2)
        finally:
            worker.stop()
    finally:
        server.stop()


def test_the_documented_key_is_used_unchanged(tmp_path: Path) -> None:
    subprocess.run(["bash", "-ec", NEW_KEY], cwd=tmp_path, check=True)
    key = (tmp_path / "secret_key").read_text().strip()
    settings = config.load({}, {"WORKHOOK_SECRET_KEY_FILE": str(tmp_path / "secret_key")})
    assert vault.setting_keys(settings.secret_key or "") == [key.encode()]
