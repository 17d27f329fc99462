"""`make release`: its files, their checksums, the contents of the SBOM, and reproducible builds."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hatch_build import SCRIPTS
from hatch_version import find_version
from scripts.check_repository import read_lock
from scripts.release import NPM_SHIPPED, ROOT, SUMS, ReleaseError, main, next_tag, release

pytestmark = pytest.mark.whole
VERSION = find_version(ROOT)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("released")
    files = release(folder, VERSION)
    assert files == [*sorted(folder.glob("workhook*")), folder / SUMS]
    return folder


@pytest.fixture(scope="module")
def sbom(released: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((released / f"workhook-{VERSION}.cdx.json").read_text(encoding="utf-8"))
    return found


def test_the_checksums_cover_all_files(released: Path) -> None:
    names = [path.name for path in released.iterdir() if path.name != SUMS]
    assert {Path(name).suffix for name in names} == {".whl", ".gz", ".json"}
    assert sorted(line.split()[1] for line in (released / SUMS).read_text().splitlines()) == sorted(names)
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=released, check=True)


def test_the_sbom_lists_every_installed_or_included_package(sbom: dict[str, Any]) -> None:
    listed = {(each["name"], each["version"]) for each in sbom["components"]}
    locked, _ = read_lock(ROOT / "requirements" / "runtime.txt")
    assert {(name, version) for name, versions in locked.items() for version in versions} <= listed
    assert {name for name, _ in listed} == {*locked, *NPM_SHIPPED}
    assert sbom["metadata"]["component"]["version"] == VERSION
    known = {each["bom-ref"] for each in sbom["components"]}
    [ours] = [each for each in sbom["dependencies"] if each["ref"] == "root-component"]
    assert {each for each in ours["dependsOn"] if each.startswith("pkg:npm/")} <= known


def test_the_tag_to_set_is_that_of_the_next_version() -> None:
    assert next_tag("0.2.0.dev1928+g0e81aa1") == "v0.2.0"
    assert next_tag("0.3.0.dev12+gabc1234.d1fa0fce3") == "v0.3.0"


def test_the_listed_npm_packages_are_those_the_build_copies() -> None:
    copied = {re.match(r"(@[^/]+/)?[^/]+", source)[0] for source in SCRIPTS.values()}  # type: ignore[index]
    assert set(NPM_SHIPPED) == copied | {"lucide-static"}  # the icons are combined into one file


def test_the_same_commit_gives_the_same_files(released: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    release(again, VERSION)
    assert (again / SUMS).read_text() == (released / SUMS).read_text()


def test_a_release_is_never_overwritten(released: Path) -> None:
    with pytest.raises(ReleaseError, match="is not empty"):
        release(released, VERSION)


def test_uncommitted_changes_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("scripts.release._git", lambda *_: " M README.md")
    assert main([]) == 1
    assert "Commit or stash them" in capsys.readouterr().err
