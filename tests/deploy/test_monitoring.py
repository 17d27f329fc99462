"""The dashboard and alerts use metrics and labels which a server has, and Prometheus accepts and evaluates them."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

import workhook
from tests.deploy.alert_cases import EVERY, FIRING, HEALTHY
from tests.deploy.promql import read
from tests.harness.debian import Program, program
from tests.harness.server import Server

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "workhook.json"
PROMETHEUS_LABELS = {"job", "instance", "le"}  # labels that Prometheus adds, or that buckets have
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",), "info": ("_info",)}
VARIABLES = {"$__rate_interval": "5m", "$__range": "6h", "$job": "workhook", "$instance": ".*"}

RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]
]
BOARD: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
PANELS = [each for each in BOARD["panels"] if each["type"] != "row"]


def of_dashboard() -> Iterator[tuple[str, str]]:
    """Yield the title and expression of each line in a panel."""
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def expressions() -> list[tuple[str, str]]:
    variables = [
        (each["name"], found[1])
        for each in BOARD["templating"]["list"]
        if each["type"] == "query" and (found := re.fullmatch(r"label_values\((.*), \w+\)", each["query"]["query"]))
    ]
    return [(rule["alert"], rule["expr"]) for rule in RULES] + list(of_dashboard()) + variables


@pytest.fixture(scope="module")
def declared() -> dict[str, set[str]]:
    """Return the label names of each series declared in Workhook's code, including series without samples."""
    found: dict[str, set[str]] = {}
    for module in pkgutil.walk_packages(workhook.__path__, "workhook."):
        if "migrations" not in module.name and not module.name.endswith("__main__"):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, MetricWrapperBase):
                    [described] = value.describe()
                    for suffix in SUFFIXES[described.type]:
                        found[described.name + suffix] = set(value._labelnames)
    return found


Scrape = dict[str, dict[str, set[str]]]


@pytest.fixture
def scraped(new_server: Callable[..., Server]) -> Scrape:
    """Return each series of a nearly idle server with its labels and their values."""
    server = new_server(organization_max_mb=100)  # without a limit, the usage of organizations is not counted
    with server.client(server.world().token) as client:
        client.post("/api/v1/projects", json={"title": "Shop"}).raise_for_status()
        text = client.get("/metrics").raise_for_status().text
    found: Scrape = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = found.setdefault(sample.name, defaultdict(set))
            for name, value in sample.labels.items():
                labels[name].add(value)
    return found


@pytest.mark.one_database
def test_every_alert_has_a_runbook() -> None:
    text = (DEPLOY.parent / "docs" / "operators" / "alerts.md").read_text(encoding="utf-8")
    sections = re.split(r"^#{2,3} ", text, flags=re.MULTILINE)[1:]
    alerts = {title: body for title, _, body in (each.partition("\n") for each in sections) if title[:8] == "Workhook"}
    assert set(alerts) == {rule["alert"] for rule in RULES}
    for rule in RULES:
        _, _, anchor = rule["annotations"]["runbook_url"].partition("/docs/guide/operators/alerts#")
        assert anchor == rule["alert"].lower()
        for part in ("**Meaning.**", "**Check**", "**Fix.**"):
            assert part in alerts[rule["alert"]], rule["alert"]


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_a_server_has_every_metric_and_label(declared: dict[str, set[str]], scraped: Scrape) -> None:
    """A series with labels may appear with its first event; all others exist from the start."""
    assert {name for name, labels in declared.items() if not labels} <= set(scraped)
    known = {"up": set[str]()} | {name: set(labels) for name, labels in scraped.items()} | declared
    wrong = []
    for where, expression in expressions():
        used = read(expression)
        assert used.metrics, expression
        wrong += [f"{where}: no metric {name}" for name in used.metrics if name not in known]
        labels = PROMETHEUS_LABELS.union(*(known.get(name, set()) for name in used.metrics))
        wrong += [f"{where}: no label {each}" for each in used.listed - labels]
        for metric, label, operator, value in used.matchers:
            if label not in known.get(metric, set()) | PROMETHEUS_LABELS:
                wrong.append(f"{where}: {metric} has no label {label}")
            elif label not in PROMETHEUS_LABELS and label != "status":
                # A series compared with a value must start at 0, because `increase()` misses the first increase.
                values = value.split("|") if "~" in operator else [value]
                wrong += [
                    f"{where}: no {metric} with {label}={each}"
                    for each in values
                    if each not in scraped.get(metric, {}).get(label, set())
                ]
    assert wrong == []


@pytest.mark.parametrize(
    ("expression", "metrics", "labels"),
    [
        ('sum by (le) (rate(a_bucket{x="1",y!~"b|c"}[5m])) > 0.5', {"a_bucket"}, {"x", "y", "le"}),
        ("a and ignoring (state) b{} == 0 or vector(0)", {"a", "b"}, {"state"}),
        ('label_replace(up, "x", "$1", "y", "(.*)") unless on(z) c offset 5m', {"up", "c"}, {"z"}),
    ],
)
def test_the_parser_finds_names(expression: str, metrics: set[str], labels: set[str]) -> None:
    used = read(expression)
    assert used.metrics == metrics
    assert used.listed | {label for _, label, _, _ in used.matchers} == labels


# --- Prometheus ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def promtool() -> Program:
    return program("promtool", "prometheus")


def run(promtool: Program, *words: str) -> None:
    done = subprocess.run(
        [promtool.path, *words], env=promtool.environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_the_alerts_and_dashboard_expressions(promtool: Program, tmp_path: Path) -> None:
    run(promtool, "check", "rules", str(ALERTS))
    rules = []
    for number, (_, expression) in enumerate(of_dashboard()):
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        rules.append({"record": f"line_{number}", "expr": expression})
    file = tmp_path / "dashboard.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    run(promtool, "check", "rules", str(file))


@pytest.mark.whole
def test_each_alert_fires_only_for_its_own_problem(promtool: Program, tmp_path: Path) -> None:
    """Prometheus evaluates the rules over six hours of made-up samples."""
    assert set(FIRING) == {rule["alert"] for rule in RULES}
    tests = []
    for alert, series in [("", {}), *FIRING.items()]:
        given = {**HEALTHY, **series}
        fires = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []
        tests.append(
            {
                "interval": EVERY,
                "name": alert or "healthy",
                "input_series": [{"series": name, "values": values} for name, values in given.items() if values],
                "promql_expr_test": [
                    {
                        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                        "eval_time": "6h",
                        "exp_samples": fires,
                    }
                ],
            }
        )
    file = tmp_path / "test.yml"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": EVERY, "tests": tests}))
    run(promtool, "test", "rules", str(file))


# --- Texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_describes_the_problem(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    used = read(rule["expr"])
    # Aggregated values have only the labels listed after `by`; others have all labels of their metric.
    kept = used.listed - {"le"} if " by " in rule["expr"] else PROMETHEUS_LABELS
    if re.match(r"(sum|max|histogram_quantile)\((?!.* by )", rule["expr"], re.DOTALL):
        kept = set()
    told = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    assert told <= kept


def test_panels_do_not_overlap_and_are_described() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    variables = {each["name"] for each in BOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(PANELS)))
    assert used <= variables | {"__rate_interval", "__range"}
