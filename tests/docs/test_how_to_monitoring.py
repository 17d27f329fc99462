"""The page on monitoring: a worker accepts the token, and Prometheus accepts the configuration."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import httpx

from tests.docs.pages import ROOT, Program, blocks, new_machine
from tests.harness.debian import program
from tests.harness.waiting import until

WORKER, TOKEN = blocks("docs/operators/monitoring.md", "sh")
[CONFIGURATION] = blocks("docs/operators/monitoring.md", "yaml")
[CHECK] = blocks("docs/operators/monitoring.md", "text")


def test_a_worker_serves_metrics_with_the_token(tmp_path: Path) -> None:
    environment = new_machine(tmp_path) | {"WORKHOOK_DATA": str(tmp_path / "data")}
    worker = Program(["bash", "-ec", TOKEN + "exec " + WORKER.replace(":9100", ":0")], tmp_path, environment)
    try:
        url = worker.wait_for("listening on ").split()[-1]
        assert httpx.get(f"{url}/metrics").status_code == 401
        headers = {"Authorization": f"Bearer {(tmp_path / 'metrics-token').read_text().strip()}"}
        until(lambda: "workhook_workers 1.0" in httpx.get(f"{url}/metrics", headers=headers).raise_for_status().text)
    finally:
        worker.stop()


def test_prometheus_accepts_the_configuration(tmp_path: Path) -> None:
    promtool = program("promtool", "prometheus")
    token = tmp_path / "workhook-token"
    token.touch()
    shutil.copy(ROOT / "deploy" / "prometheus" / "alerts.yml", tmp_path)
    config = tmp_path / "prometheus.yml"
    config.write_text(CONFIGURATION.replace("/etc/prometheus/workhook-token", str(token)))
    name, *words = CHECK.replace("/etc/prometheus/prometheus.yml", str(config)).split()
    assert name == "promtool"
    command = [promtool.path, *words]
    done = subprocess.run(command, env=promtool.environment, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "SUCCESS: 1 rule files found" in done.stdout
