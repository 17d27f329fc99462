"""The documented upgrade: a wheel of the next commit replaces the one before it, with pip, pipx and uv."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts.check_repository import repository_files
from tests.docs.pages import every_block

pytestmark = pytest.mark.whole

ROOT = Path(__file__).parents[2]
PAGE = "docs/operators/install.md"
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "npm_config_offline": "true", "UV_OFFLINE": "1"}


def run(*command: str | Path, folder: Path, **variables: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PIP_", "UV_"))}
    done = subprocess.run(
        [str(each) for each in command],
        cwd=folder, env={**kept, **OFFLINE, **variables}, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build wheels of a commit and of the next one, which adds a file."""
    folder = tmp_path_factory.mktemp("checkout")
    vendor = ROOT / "src/workhook/web/static/vendor"
    for path in [*repository_files(ROOT), *vendor.iterdir()]:
        copied = folder / path.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copied)
    made: list[Path] = []
    run("git", "init", "--quiet", folder=folder)
    for number in (1, 2):
        (folder / "src" / "workhook" / f"added_{number}.py").touch()
        run("git", "add", ".", folder=folder)
        names = ("-c", "user.name=x", "-c", "user.email=x@example.com")
        run("git", *names, "commit", "--quiet", "--message", str(number), folder=folder)
        target = folder.parent / f"dist{number}"
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", target, folder=folder)
        made += target.glob("*.whl")
    first, second = made
    return first, second


def version_of(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def test_wheels_of_two_commits_have_different_versions(wheels: tuple[Path, Path]) -> None:
    first, second = map(version_of, wheels)
    assert (first.partition("+")[0], second.partition("+")[0]) == ("0.2.0.dev1", "0.2.0.dev2")
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as file:
            assert file.read("workhook/version.txt").decode().strip() == version_of(wheel)


@pytest.fixture(scope="module")
def links(wheels: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with an empty wheel for each dependency in the version installed here."""
    folder = tmp_path_factory.mktemp("links")
    with zipfile.ZipFile(wheels[0]) as file:
        [metadata] = [each for each in file.namelist() if each.endswith(".dist-info/METADATA")]
        lines = file.read(metadata).decode().splitlines()
    for line in lines:
        needed = Requirement(line.partition(": ")[2]) if line.startswith("Requires-Dist: ") else None
        if needed is not None and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
            name, version = needed.name.replace("-", "_"), importlib.metadata.version(needed.name)
            with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as stub:
                inside = f"{name}-{version}.dist-info"
                stub.writestr(f"{inside}/METADATA", f"Metadata-Version: 2.1\nName: {needed.name}\nVersion: {version}\n")
                stub.writestr(f"{inside}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
                stub.writestr(f"{inside}/RECORD", "")
    return folder


def _pip(folder: Path, wheel: Path, links: Path) -> Path:
    environment = folder / "environment"
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python"]
    if not environment.exists():
        run(sys.executable, "-m", "venv", "--without-pip", environment, folder=folder)
        run(*pip, "install", *links.iterdir(), folder=folder)
    run(*pip, "install", "--no-index", "--no-deps", wheel, folder=folder)
    run(*pip, "check", folder=folder)
    return environment


def _tools(folder: Path, links: Path) -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PIPX_HOME": str(folder / "pipx"), "PIPX_BIN_DIR": str(folder / "bin"), "USE_EMOJI": "0",
        "UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin"),
        "UV_CACHE_DIR": str(folder / "cache"), "UV_NO_CONFIG": "1", "UV_PYTHON_DOWNLOADS": "never",
        "UV_FIND_LINKS": str(links), "UV_NO_INDEX": "1",
    }  # fmt: skip


def _pipx(folder: Path, wheel: Path, links: Path) -> Path:
    """Install with the backend that needs no pip from an index."""
    tool = Path(sys.executable).with_name("pipx")
    run(tool, "install", "--force", "--backend=uv", wheel, folder=folder, **_tools(folder, links))
    return folder / "pipx" / "venvs" / "workhook"


def _uv(folder: Path, wheel: Path, links: Path) -> Path:
    tool = Path(sys.executable).with_name("uv")
    run(tool, "tool", "install", "--python", sys.executable, wheel, folder=folder, **_tools(folder, links))
    return folder / "tools" / "workhook"


@pytest.mark.parametrize("install", [_pip, _pipx, _uv], ids=["pip", "pipx", "uv"])
def test_each_wheel_replaces_the_other(
    wheels: tuple[Path, Path], links: Path, install: Callable[[Path, Path, Path], Path], tmp_path: Path
) -> None:
    ask = "import workhook, importlib.metadata as m; print(workhook.__version__, m.version('workhook'))"
    first, second = wheels
    for wheel in (first, second, first):
        python = install(tmp_path, wheel, links) / "bin" / "python"
        assert run(python, "-c", ask, folder=tmp_path) == f"{version_of(wheel)} {version_of(wheel)}"
        assert (tmp_path / "bin" / "workhook").exists() or install is _pip
        [package] = tmp_path.glob("**/site-packages/workhook")
        assert (package / "added_2.py").exists() is (wheel == second)


def test_the_documented_upgrade_uses_the_same_commands() -> None:
    commands = "\n".join(text for _, text in every_block(PAGE))
    for each in (
        "pip install --no-index --no-deps dist/workhook-*.whl",
        "pipx install --force dist/",
        "uv tool install dist/",
    ):
        assert each in commands
