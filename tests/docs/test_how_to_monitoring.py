"""The page on monitoring: a worker accepts the token, and Prometheus accepts the configuration."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx

from tests.docs.pages import ROOT, Program, blocks, new_machine
from tests.harness.debian import program
from tests.harness.waiting import until

WORKER, TOKEN, ALERTS = blocks("docs/operators/monitoring.md", "sh")
[CONFIGURATION] = blocks("docs/operators/monitoring.md", "yaml")
[CHECK] = blocks("docs/operators/monitoring.md", "text")


def here(block: str, folder: str, tmp_path: Path) -> str:
    """Return the commands for another folder, without another user's rights."""
    return block.replace("sudo ", "").replace("-g workhook ", "").replace(folder, f"{tmp_path}/")


def test_a_worker_serves_metrics_with_the_token(tmp_path: Path) -> None:
    environment = new_machine(tmp_path) | {"WORKHOOK_DATA": str(tmp_path / "data")}
    restart = "sudo systemctl restart workhook\n"
    assert TOKEN.endswith(restart)
    create = here(TOKEN.removesuffix(restart), "/etc/workhook/", tmp_path)
    start = f"set -a; . {tmp_path}/workhook.env; exec " + WORKER.replace(":9100", ":0")
    worker = Program(["bash", "-ec", create + start], tmp_path, environment)
    try:
        url = worker.wait_for("listening on ").split()[-1]
        assert httpx.get(f"{url}/metrics").status_code == 401
        headers = {"Authorization": f"Bearer {(tmp_path / 'metrics_token').read_text().strip()}"}
        until(lambda: "workhook_workers 1.0" in httpx.get(f"{url}/metrics", headers=headers).raise_for_status().text)
    finally:
        worker.stop()


def test_prometheus_accepts_the_configuration(tmp_path: Path) -> None:
    promtool = program("promtool", "prometheus")
    token = tmp_path / "workhook-token"
    token.touch()
    subprocess.run(["bash", "-ec", here(ALERTS, "/etc/prometheus/", tmp_path)], cwd=ROOT, check=True, timeout=100)
    assert "https://workhook.example.com" not in (tmp_path / "alerts.yml").read_text().partition("groups:")[2]
    config = tmp_path / "prometheus.yml"
    config.write_text(CONFIGURATION.replace("/etc/prometheus/workhook-token", str(token)))
    name, *words = CHECK.replace("/etc/prometheus/prometheus.yml", str(config)).split()
    assert name == "promtool"
    command = [promtool.path, *words]
    done = subprocess.run(command, env=promtool.environment, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "SUCCESS: 1 rule files found" in done.stdout
