"""A real Prometheus monitors a real server and evaluates every rule and dashboard expression without errors."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.deploy.proxies import free_port
from tests.deploy.test_monitoring import ALERTS, RULES, VARIABLES, of_dashboard
from tests.harness.debian import program
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)

# Panels without data on a healthy server, or of the other database.
WITHOUT_DATA = {"Errors by route", "Connections to PostgreSQL"}


class Prometheus:
    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=f"{url}/api/v1", trust_env=False, timeout=60)

    def get(self, path: str, **parameters: str) -> Any:
        answer = self._client.get(path, params=parameters).json()
        assert answer["status"] == "success", (parameters, answer)
        return answer["data"]

    def ask(self, expression: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/query", query=expression)["result"]
        return found

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def watched(new_server: Callable[..., Server], receiver: Receiver) -> Server:
    """Return a server that has made deliveries."""
    server = new_server(organization_max_mb=100)
    world = server.world()
    with server.client(world.token) as client:
        hook = {"config": {"url": receiver.url, "content_type": "json"}, "events": ["push"]}
        client.post(f"{world.repo_path}/hooks", json=hook).raise_for_status()
        client.post("/api/v1/projects", json={"title": "Shop"}).raise_for_status()
    receiver.wait_for(1)
    return server


@pytest.fixture
def prometheus(watched: Server, tmp_path: Path) -> Iterator[Prometheus]:
    found = program("prometheus", "prometheus")
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [
            {"job_name": "workhook", "static_configs": [{"targets": [urlsplit(watched.url).netloc]}]},
        ],
    }
    file = tmp_path / "prometheus.yml"
    file.write_text(json.dumps(config))
    port = free_port()
    command = [
        found.path, f"--config.file={file}", f"--storage.tsdb.path={tmp_path / 'series'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, env={**os.environ, **found.environment}, stdout=output, stderr=output, cwd=tmp_path
        )
    asked = Prometheus(f"http://127.0.0.1:{port}")

    def has_read_twice() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            return bool(asked.ask('count_over_time(up{job="workhook"}[1m]) > 1'))
        except (httpx.TransportError, json.JSONDecodeError):
            return False  # Prometheus is not ready

    try:
        until(has_read_twice)
        yield asked
    finally:
        asked.close()
        process.terminate()
        process.wait(30)


@pytest.mark.whole
def test_prometheus_evaluates_all_rules_and_panels(prometheus: Prometheus) -> None:
    def rules() -> list[dict[str, Any]]:
        found = [rule for group in prometheus.get("/rules")["groups"] for rule in group["rules"]]
        return found if all(rule["health"] != "unknown" for rule in found) else []

    evaluated = until(rules)
    assert {each["name"] for each in evaluated} == {each["alert"] for each in RULES}
    assert [(each["name"], each.get("lastError")) for each in evaluated if each["health"] != "ok"] == []
    assert [each["name"] for each in evaluated if each["state"] == "firing"] == []
    answered: dict[str, bool] = {}
    for title, expression in of_dashboard():
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        answered[title] = bool(prometheus.ask(expression)) or answered.get(title, False)
    assert {title for title, has_data in answered.items() if not has_data} == WITHOUT_DATA
