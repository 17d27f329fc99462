"""The page on installing. `tests/deploy` tests its changes to a machine in temporary folders."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.docs.pages import ROOT, blocks, every_block, new_machine
from workhook.core.config import load

PAGE = "docs/operators/install.md"
[SECRETS] = blocks("docs/operators/install.md", "sh")
[SETTINGS] = blocks("docs/operators/install.md", "ini")


def test_the_secrets_for_compose_are_created(tmp_path: Path) -> None:
    subprocess.run(["bash", "-ec", SECRETS], cwd=tmp_path, env=new_machine(tmp_path), check=True)
    folder = tmp_path / "secrets"
    password = (folder / "database_password").read_text().strip()
    assert len(password) == 48
    names = {"WORKHOOK_DATABASE_URL_FILE": "database_url", "WORKHOOK_METRICS_TOKEN_FILE": "metrics_token"}
    settings = load({}, {name: str(folder / file) for name, file in names.items()})
    assert len(settings.metrics_token or "") == 48
    assert settings.database_url == f"postgresql://workhook:{password}@database/workhook"
    assert folder.stat().st_mode & 0o077 == 0
    for each in folder.iterdir():
        assert each.stat().st_mode & 0o004, "the user in the container reads it"
    name, _, value = (tmp_path / ".env").read_text().strip().partition("=")
    assert load({}, {name: value}).base_url == value
    assert name in (ROOT / "compose.yaml").read_text(encoding="utf-8")


def test_the_settings_of_the_unit_are_valid() -> None:
    settings = load({}, dict(line.split("=", 1) for line in SETTINGS.splitlines()))
    assert settings.trust_proxy is True
    assert settings.base_url == "https://work.example.com"


def test_pip_installs_the_same_packages_as_the_image() -> None:
    """`test_packages.py` runs these steps with the packages on the machine."""
    [block] = [text for _, text in every_block(PAGE) if text.startswith("sudo python3 -m venv")]
    image = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("${REQUIREMENTS}", "runtime")
    for command in re.findall(r"bin/pip (install .*)", block):
        assert command.replace("dist/workhook-*.whl", "/wheel/*.whl") in image


def test_every_file_on_the_page_exists() -> None:
    named = set(re.findall(r"deploy/[\w./-]+\w", (ROOT / PAGE).read_text(encoding="utf-8")))
    assert named
    assert [each for each in named if not (ROOT / each).is_file()] == []
