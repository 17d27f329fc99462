"""The version of this source tree, such as `0.2.0.dev12+gabc1234`: two different trees never share one.

`hatch_build.py` writes it into wheels; a checkout that runs without being built asks for it at start (`workhook`).
`python3 hatch_version.py` prints it. The sources, best first:

1. `PKG-INFO` of a source distribution;
2. git: a tag `v0.2.0` is version 0.2.0, and 12 commits later it is 0.3.0.dev12. Uncommitted changes add `.d` and a hash
   of them. A shallow clone counts only the commits that it has;
3. `.git_archival.txt`, which `git archive` fills in;
4. a hash of the sources.

Nothing here needs the network or a package.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

FIRST = "0.2.0"  # the version that a tree without a tag leads to
SOURCES = ("LICENSE", "README.md", "assets", "docs", "hatch_build.py", "hatch_version.py", "pyproject.toml", "src")
_GENERATED = re.compile(r"/__pycache__/|\.mo$|/guide\.json|/static/(vendor|pictures|tmp[^/]*)/")
_TAG = re.compile(r"v(?P<release>\d+\.\d+\.\d+)(?:(?P<stage>a|b|rc)(?P<number>\d+))?")
_DESCRIBED = re.compile(r"(?P<tag>v[0-9a-z.]+)(?:-(?P<distance>\d+)-g(?P<commit>[0-9a-f]+))?")
_GIT_TIMEOUT_S = 60


def find_version(root: Path) -> str:
    """Return the version of the tree in `root`."""
    for source in (_from_package_information, _from_git, _from_archive):
        version = source(root)
        if version is not None:
            return version
    return f"{FIRST}.dev0+s{_hash_of_sources(root)}"


def _from_package_information(root: Path) -> str | None:
    path = root / "PKG-INFO"
    found = re.search(r"^Version: (\S+)$", path.read_text(encoding="utf-8"), re.MULTILINE) if path.is_file() else None
    return found and found[1]


def _from_git(root: Path) -> str | None:
    if not (root / ".git").exists():  # else git would describe a repository that this folder lies in
        return None
    described = _git(root, "describe", "--tags", "--long", "--abbrev=7", "--match", "v[0-9]*")
    if described is None:
        distance, commit = _git(root, "rev-list", "--count", "HEAD"), _git(root, "rev-parse", "--short=7", "HEAD")
        if distance is None or commit is None:
            return None
        return f"{FIRST}.dev{distance.strip()}+g{commit.strip()}{_changes(root)}"
    return _version_of(described.strip(), _changes(root))


def _from_archive(root: Path) -> str | None:
    path = root / ".git_archival.txt"
    if not path.is_file():
        return None
    facts = dict(line.split(": ", 1) for line in path.read_text(encoding="utf-8").splitlines() if ": " in line)
    commit, described = facts.get("commit", ""), facts.get("describe", "")
    if not re.fullmatch("[0-9a-f]{7,64}", commit):  # as it is in the repository
        return None
    return _version_of(described, "") or f"{FIRST}.dev0+g{commit[:7]}"


def _version_of(described: str, changes: str) -> str | None:
    """Return the version for an answer of `git describe`, or None if its tag does not name a version."""
    found = _DESCRIBED.fullmatch(described)
    tag = found and _TAG.fullmatch(found["tag"])
    if found is None or not tag:
        return None
    distance = int(found["distance"] or 0)
    if not distance and not changes:
        return tag[0].removeprefix("v")
    if tag["stage"]:
        following = f"{tag['release']}{tag['stage']}{int(tag['number']) + 1}"
    else:
        major, minor, _ = tag["release"].split(".")
        following = f"{major}.{int(minor) + 1}.0"
    return f"{following}.dev{distance}+{'g' + found['commit'] if found['commit'] else 'dirty'}{changes}"


def _changes(root: Path) -> str:
    """Return `.d` and a hash of what differs from the commit, or an empty text if nothing does."""
    changed = _git(root, "diff", "HEAD", "--binary", "--no-ext-diff", "--", *SOURCES) or ""
    added = _git(root, "ls-files", "--others", "--exclude-standard", "-z", "--", *SOURCES) or ""
    if not changed and not added:
        return ""
    digest = hashlib.sha256(changed.encode("utf-8", "surrogateescape"))
    for name in sorted(filter(None, added.split("\0"))):
        digest.update(name.encode("utf-8", "surrogateescape") + b"\0" + (root / name).read_bytes())
    return f".d{digest.hexdigest()[:8]}"


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git prints, or None if it fails or is missing. Works on a checkout that another user owns."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "-c", f"safe.directory={root}", *arguments],
            env={**environment, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _hash_of_sources(root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(_files_of(root)):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:8]


def _files_of(root: Path) -> Iterator[Path]:
    for name in SOURCES:
        top = root / name
        for path in [top] if top.is_file() else top.rglob("*"):
            if path.is_file() and not _GENERATED.search(path.as_posix()):
                yield path


def version() -> str:
    """For `[tool.hatch.version]` of pyproject.toml."""
    return find_version(Path(__file__).resolve().parent)


if __name__ == "__main__":
    print(version())
