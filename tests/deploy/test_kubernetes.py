"""The Kubernetes manifests are valid against Kubernetes' schemas, consistent, and use existing settings."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

from tests.docs.pages import blocks
from tests.harness.server import Server
from workhook.cli.app import app
from workhook.core.config import load
from workhook.work.money.invoices.documents import AT_ONCE, MEMORY_BYTES

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
SUPPORTED = ("1.30", "1.37")  # the oldest and newest supported versions


def documents(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each]


MANIFESTS = [each for name in KUSTOMIZATION["resources"] for each in documents((FOLDER / name).read_text())]
WORKLOADS = [each for each in MANIFESTS if each["kind"] in ("Deployment", "Job")]
DEPLOYMENTS = [each for each in WORKLOADS if each["kind"] == "Deployment"]
SETTINGS = dict(line.split("=", 1) for line in (FOLDER / "settings.env").read_text().split())


def name_of(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def pod_of(workload: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = workload["spec"]["template"]["spec"]
    return pod


def container_of(workload: dict[str, Any]) -> dict[str, Any]:
    [container] = pod_of(workload)["containers"]
    found: dict[str, Any] = container
    return found


def test_every_manifest_belongs_to_the_kustomization() -> None:
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(KUSTOMIZATION["resources"])


@pytest.mark.parametrize("version", SUPPORTED)
@pytest.mark.parametrize("manifest", MANIFESTS, ids=name_of)
def test_manifests_match_the_schemas(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_the_documented_ingress_reaches_the_server() -> None:
    written, shown, _ = blocks("docs/operators/kubernetes.md", "yaml")
    kustomization, ingress = yaml.safe_load(written), yaml.safe_load(shown)
    kubernetes_validate.validate(ingress, SUPPORTED[-1], strict=True)
    assert ingress["metadata"]["namespace"] == KUSTOMIZATION["namespace"]
    assert {each["namespace"] for each in kustomization["configMapGenerator"]} == {KUSTOMIZATION["namespace"]}
    [path] = ingress["spec"]["rules"][0]["http"]["paths"]
    wanted = path["backend"]["service"]
    [service] = (each for each in MANIFESTS if each["kind"] == "Service")
    assert wanted["name"] == service["metadata"]["name"]
    assert wanted["port"]["name"] in {each["name"] for each in service["spec"]["ports"]}


def test_the_documented_discovery_keeps_the_port_with_metrics() -> None:
    *_, shown = blocks("docs/operators/kubernetes.md", "yaml")
    [job] = yaml.safe_load(shown)["scrape_configs"]
    [discovery], [kept] = job["kubernetes_sd_configs"], job["relabel_configs"]
    assert discovery["namespaces"]["names"] == [KUSTOMIZATION["namespace"]]
    assert (kept["action"], kept["source_labels"]) == ("keep", ["__meta_kubernetes_pod_container_port_name"])
    for workload in DEPLOYMENTS:
        assert [each["name"] for each in container_of(workload)["ports"]] == [kept["regex"]]


def test_an_unknown_key_is_refused() -> None:
    broken = {**MANIFESTS[0], "spce": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, SUPPORTED[-1], strict=True)


def test_kustomize_builds_the_manifests() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: NOT TESTED. Install kubectl 1.30 or newer.")
    built = subprocess.run(["kubectl", "kustomize", FOLDER], check=True, capture_output=True, text=True, timeout=60)
    made = documents(built.stdout)
    assert len(made) == len(MANIFESTS) + len(KUSTOMIZATION["configMapGenerator"])
    for each in made:
        kubernetes_validate.validate(each, SUPPORTED[-1], strict=True)
        assert each["metadata"].get("namespace", "workhook") == KUSTOMIZATION["namespace"]


@pytest.mark.parametrize("workload", WORKLOADS, ids=name_of)
def test_pods_meet_the_restricted_standard(workload: dict[str, Any]) -> None:
    """The namespace enforces the standard, so a pod that violates it is never created."""
    pod, container = pod_of(workload), container_of(workload)
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not pod["automountServiceAccountToken"]
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}


@pytest.mark.parametrize("workload", DEPLOYMENTS, ids=name_of)
def test_pods_have_the_memory_to_print_invoices(workload: dict[str, Any]) -> None:
    limit = container_of(workload)["resources"]["limits"]["memory"]
    assert int(limit.removesuffix("Gi")) * 1024**3 >= AT_ONCE * MEMORY_BYTES + 512 * 1024**2


@pytest.mark.parametrize("workload", DEPLOYMENTS, ids=name_of)
def test_selectors_match_their_pods(workload: dict[str, Any]) -> None:
    labels = workload["spec"]["template"]["metadata"]["labels"].items()
    selectors = [workload["spec"]["selector"]["matchLabels"]]
    name = workload["metadata"]["name"]
    for each in MANIFESTS:
        if each["metadata"]["name"] == name and each["kind"] in ("Service", "PodDisruptionBudget"):
            chosen = each["spec"]["selector"]
            selectors.append(chosen.get("matchLabels", chosen))
    assert len(selectors) >= 2
    assert all(selector.items() <= labels for selector in selectors)


@pytest.mark.parametrize("workload", WORKLOADS, ids=name_of)
def test_settings_and_commands_exist(workload: dict[str, Any], tmp_path: Path) -> None:
    environment = dict(SETTINGS)
    for variable in container_of(workload)["env"]:
        assert variable["name"].endswith("_FILE"), "secrets are mounted, not passed in variables"
        secret = tmp_path / Path(variable["value"]).name
        secret.write_text("postgresql://workhook@db/workhook" if secret.name == "database_url" else "x" * 44)
        environment[variable["name"]] = str(secret)
    settings = load({}, environment)
    assert settings.files_url == SETTINGS["WORKHOOK_FILES_URL"]
    assert settings.database_url == "postgresql://workhook@db/workhook"
    if workload in DEPLOYMENTS:
        grace_s = pod_of(workload)["terminationGracePeriodSeconds"]
        assert grace_s > settings.drain_delay_s + settings.drain_s
    assert container_of(workload)["args"][0] in app.commands


@pytest.mark.parametrize("workload", DEPLOYMENTS, ids=name_of)
def test_probes_request_existing_endpoints(workload: dict[str, Any], server: Server) -> None:
    container = container_of(workload)
    [port] = container["ports"]
    with server.client("") as client:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container[probe]["httpGet"]
            assert asked["port"] == port["name"]
            assert client.get(asked["path"]).status_code == 200
    if "--listen" in container["args"]:
        assert container["args"][-1].endswith(f":{port['containerPort']}")
