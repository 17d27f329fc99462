"""Run inexpensive checks on every file of the repository: `python -m scripts.check_repository`, a part of `make check`.

Prints one line per violation and exits with status 1 if there are any. `tests/unit/test_architecture.py` tests the
rules themselves.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts import prose_rules, source_rules, statement_rules

ROOT = Path(__file__).resolve().parent.parent
SIZED_FOLDERS = ("src", "scripts", "bench")
SIZED_SUFFIXES = frozenset({".py", ".js", ".css", ".html"})

# Hosts of package indexes, split in two so that this file does not contain them itself.
_HOSTS = (
    ("pypi", "org"),
    ("pypi.python", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "(?:org|com)"),
    ("registry.yarnpkg", "com"),
    ("npm.pkg.github", "com"),
    ("conda.anaconda", "org"),
)
INDEX_ADDRESS = re.compile(
    "|".join(
        [
            *(re.escape(name) + r"\." + end for name, end in _HOSTS),
            r"(?:https?|file)://[^\s\"'<>]*/simple(?:/|\b)",  # the usual path of an index, on any host
            r"\"resolved\":\s*\"(?:https?|file):",  # where npm found a package
            r"--(?:extra-)?index-url[ =]\S",
            r"--find-links[ =]\S",
            r"^\s*registry\s*=",
        ]
    ),
    re.IGNORECASE,
)
_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>[^\\]+?))?(?P<more> \\)?")
_HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?P<more> \\)?")


def repository_files(root: Path) -> list[Path]:
    """Return existing files that are tracked or not ignored. Raises `CalledProcessError` outside a git checkout."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True).stdout.decode()
    return [path for name in listed.split("\0") if name and (path := root / name).is_file()]


def index_address_violations(path: Path) -> Iterator[str]:
    """Yield references to package indexes, registries and link folders, which would tie the project to one network."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if found := INDEX_ADDRESS.search(line):
            yield f"{path}:{number}: names a package index: {found.group().strip()!r}"


def read_lock(path: Path) -> tuple[dict[str, set[str]], list[str]]:
    """Return the pinned versions by normalized name, and the faults of the file.

    A name can have several versions, each with a marker, such as one per version of Python. Faults are pins without a
    hash, and lines that are not a pin, a hash or a comment.
    """
    pins: dict[str, set[str]] = {}
    wrong: list[str] = []
    needs_hash = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if pin := _PIN.fullmatch(line):
            if not pin["more"]:
                wrong.append(f"{path}:{number}: {pin['name']} has no hash")
            pins.setdefault(canonicalize_name(pin["name"]), set()).add(pin["version"])
            needs_hash = bool(pin["more"])
        elif (hashed := _HASH.fullmatch(line)) and needs_hash:
            needs_hash = bool(hashed["more"])
        else:
            wrong.append(f"{path}:{number}: not a pin, a hash or a comment: {line.strip()!r}")
    return pins, wrong


def unmet(wanted: Iterable[str], pins: Mapping[str, set[str]], lock: Path) -> Iterator[str]:
    """Yield requirements of pyproject.toml that the lock file does not satisfy."""
    for text in wanted:
        requirement = Requirement(text)
        versions = pins.get(canonicalize_name(requirement.name), set())
        if not versions or not all(requirement.specifier.contains(each, prereleases=True) for each in versions):
            yield f"{lock}: pins {_listed(versions)} for {text!r}; run `make lock`"


def _listed(versions: Iterable[str]) -> str:
    return ", ".join(sorted(versions)) or "nothing"


def lock_violations(root: Path) -> Iterator[str]:
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"]
    build = project["build-system"]["requires"]
    wanted = {
        "runtime": project["project"]["dependencies"],
        "build": groups["build"] + build,
        "dev": project["project"]["dependencies"] + groups["build"] + groups["dev"],
        "lock": groups["lock"],
    }
    pinned: dict[str, dict[str, set[str]]] = {}
    for kind, requirements in wanted.items():
        path = root / "requirements" / f"{kind}.txt"
        pinned[kind], wrong = read_lock(path)
        yield from wrong
        yield from unmet(requirements, pinned[kind], path)
    for kind in ("runtime", "build"):
        for name, versions in pinned[kind].items():
            tested = pinned["dev"].get(name, set())
            if not versions <= tested:
                untested = f"tests {name} {_listed(tested)}, but {kind}.txt installs {_listed(versions)}"
                yield f"requirements/dev.txt: {untested}; run `make lock`"


def size_violations(root: Path, files: Iterable[Path]) -> Iterator[str]:
    for path in files:
        if path.suffix not in SIZED_SUFFIXES or path.relative_to(root).parts[0] not in SIZED_FOLDERS:
            continue
        yield from source_rules.file_size_violations(path)
        if path.suffix == ".py":
            tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
            yield from source_rules.function_size_violations(path, ast.walk(tree))


def generated_violations(root: Path) -> Iterator[str]:
    """Yield each page that its generator, a `scripts/write_*.py`, would write differently."""
    for path in sorted((root / "scripts").glob("write_*.py")):
        generator = importlib.import_module(f"scripts.{path.stem}")
        if generator.PAGE.read_text(encoding="utf-8") != generator.render():
            yield f"{generator.PAGE}: out of date; run `python -m scripts.{path.stem}`"


def violations(root: Path) -> Iterator[str]:
    files = repository_files(root)
    for path in files:
        yield from index_address_violations(path)
    yield from lock_violations(root)
    yield from size_violations(root, files)
    yield from statement_rules.violations()
    yield from prose_rules.prose_violations(root)
    yield from generated_violations(root)


def main() -> int:
    wrong = [line.replace(f"{ROOT}/", "") for line in violations(ROOT)]
    for line in wrong:
        print(line)
    print(f"repository: {len(wrong)} wrong" if wrong else "repository: all rules hold")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
