"""Node and npm from the wheel, and the packages locked for the tests, including the example payloads."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.clients.octokit_examples import load_examples
from tests.node_tools import NODE_FOLDER, STAMP_NAME, InstallFailed, ensure_node_modules, node
from workhook.events.catalog import CATALOG, known


def lock_without_packages(version: str) -> str:
    root = {"name": "empty", "version": version}
    return json.dumps({**root, "lockfileVersion": 3, "requires": True, "packages": {"": root}})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a project without dependencies, which npm can install without a network."""
    (tmp_path / "package.json").write_text('{"name": "empty", "version": "1.0.0"}')
    (tmp_path / "package-lock.json").write_text(lock_without_packages("1.0.0"))
    return tmp_path


def test_an_install_is_kept_until_the_lock_changes(folder: Path) -> None:
    stamp = ensure_node_modules(folder) / STAMP_NAME
    (folder / "node_modules" / "kept").touch()
    first = stamp.read_text()
    ensure_node_modules(folder)
    assert (folder / "node_modules" / "kept").exists()

    (folder / "package.json").write_text('{"name": "empty", "version": "1.0.1"}')
    (folder / "package-lock.json").write_text(lock_without_packages("1.0.1"))
    ensure_node_modules(folder)
    assert not (folder / "node_modules" / "kept").exists()
    assert stamp.read_text() != first


def test_concurrent_installs_share_one_result(folder: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        stamps = set(pool.map(lambda _: (ensure_node_modules(folder) / STAMP_NAME).stat().st_mtime_ns, range(4)))
    assert len(stamps) == 1


def test_a_mismatched_lock_file_is_an_error(folder: Path) -> None:
    (folder / "package.json").write_text('{"name": "empty", "dependencies": {"missing-from-the-lock": "1.0.0"}}')
    with pytest.raises(InstallFailed, match="missing-from-the-lock"):
        ensure_node_modules(folder)
    assert not (folder / "node_modules" / STAMP_NAME).exists()


def test_the_lock_file_pins_hashes_and_names_no_registry() -> None:
    wanted = json.loads((NODE_FOLDER / "package.json").read_text())["devDependencies"]
    packages = json.loads((NODE_FOLDER / "package-lock.json").read_text())["packages"]
    assert packages[""]["devDependencies"] == wanted
    del packages[""]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    for path, package in packages.items():
        assert package["integrity"].startswith("sha512-"), path
        assert "resolved" not in package, path


def test_the_wheels_node_runs_the_locked_packages() -> None:
    ensure_node_modules()
    script = """
        import { Webhooks } from "@octokit/webhooks";
        import { Octokit } from "@octokit/rest";
        const webhooks = new Webhooks({ secret: "It's a Secret to Everybody" });
        const signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        console.log(typeof new Octokit().repos.listWebhooks,
                    await webhooks.verify("Hello, World!", signature), await webhooks.verify("Hello!", signature));
    """
    command = [str(node()), "--input-type=module", "--eval", script]
    result = subprocess.run(command, cwd=NODE_FOLDER, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.split() == ["function", "true", "false"]


def test_every_example_payload_is_of_a_known_event() -> None:
    examples = load_examples()
    assert len(examples) == 329
    assert len({name for name, _ in examples}) == 58
    assert [name for name, _ in examples if not known(name)] == []


def test_real_pushes_fit_the_push_schema() -> None:
    """The payloads lack `username`, which Workhook adds to every user."""
    schema = CATALOG["push"].schema
    assert schema is not None
    validator = Draft202012Validator(schema)
    pushes = [payload for name, payload in load_examples() if name == "push"]
    assert len(pushes) == 7
    for payload in pushes:
        payload["sender"]["username"] = payload["sender"]["login"]
        assert [error.message for error in validator.iter_errors(payload)] == []
