"""The version of a source tree, which is derived from a tag and a commit and differs between trees."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.version import Version

from hatch_version import find_version
from scripts.check_repository import ROOT
from tests.harness.archives import unpack_tar

FILES = ("hatch_version.py", ".gitattributes", ".git_archival.txt")
Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Return a function that runs Git in a repository with one commit in `tree`."""

    def run(*arguments: str, folder: str = "tree") -> str:
        names = ("-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "tag.gpgsign=false")
        command = ["git", "-C", str(tmp_path / folder), *names, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip()

    (tmp_path / "tree" / "src" / "workhook").mkdir(parents=True)
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / "tree" / name)
    shutil.copy(ROOT / "src/workhook/__init__.py", tmp_path / "tree/src/workhook/__init__.py")
    run("init", "--quiet")
    run("add", ".")
    run("commit", "--quiet", "--message", "One")
    return run


def commit(git: Git, tree: Path, text: str) -> str:
    (tree / "src" / "more.py").write_text(text)
    git("add", ".")
    git("commit", "--quiet", "--message", text)
    return git("rev-parse", "--short=7", "HEAD")


def test_commits_without_a_tag_lead_to_the_first_version(git: Git, tmp_path: Path) -> None:
    short = git("rev-parse", "--short=7", "HEAD")
    assert find_version(tmp_path / "tree") == f"0.2.0.dev1+g{short}"


@pytest.mark.parametrize(
    ("tag", "later"), [("v0.2.0", "0.3.0"), ("v0.2.3", "0.3.0"), ("v2.9.1", "2.10.0"), ("v1.0.0rc1", "1.0.0rc2")]
)
def test_a_tag_is_a_version_and_later_commits_lead_to_the_next(git: Git, tmp_path: Path, tag: str, later: str) -> None:
    tree = tmp_path / "tree"
    before = find_version(tree)
    git("tag", tag)
    assert find_version(tree) == tag[1:]
    commit(git, tree, "two")
    short = commit(git, tree, "three")
    assert find_version(tree) == f"{later}.dev2+g{short}"
    assert Version(before) < Version(tag) < Version(find_version(tree)) < Version(later)
    git("tag", "--annotate", "--message", "x", f"v{later}")
    assert find_version(tree) == later


def test_a_tag_that_is_not_a_version_is_ignored(git: Git, tmp_path: Path) -> None:
    git("tag", "nightly")
    assert find_version(tmp_path / "tree").startswith("0.2.0.dev1+g")


def test_each_change_to_the_sources_has_its_own_version(git: Git, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    git("tag", "v0.1.0")
    seen = [find_version(tree)]
    for path, text in (("src/workhook/__init__.py", "1"), ("src/workhook/__init__.py", "2"), ("src/new.py", "3")):
        (tree / path).write_text(text)
        seen.append(find_version(tree))
    assert len(set(seen)) == len(seen), seen
    assert all(Version(each) > Version("0.1.0") for each in seen[1:])
    (tree / "notes.txt").write_text("is in no wheel")
    assert find_version(tree) == seen[-1]


def test_a_clone_has_the_same_version_and_a_shallow_one_the_same_commit(git: Git, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    git("tag", "v0.1.0")
    short = commit(git, tree, "two")
    git("clone", "--quiet", str(tree), str(tmp_path / "full"), folder=".")
    git("clone", "--quiet", "--depth", "1", "--no-tags", f"file://{tree}", str(tmp_path / "shallow"), folder=".")
    assert find_version(tmp_path / "full") == f"0.2.0.dev1+g{short}"
    assert find_version(tmp_path / "shallow") == f"0.2.0.dev1+g{short}"


@pytest.mark.parametrize("tagged", [False, True])
def test_an_archive_of_git_knows_its_commit(git: Git, tmp_path: Path, tagged: bool) -> None:
    if tagged:
        git("tag", "--annotate", "--message", "x", "v0.3.0")
        commit(git, tmp_path / "tree", "two")
    git("archive", "--output", str(tmp_path / "archive.tar"), "HEAD")
    (tmp_path / "unpacked").mkdir()
    with tarfile.open(tmp_path / "archive.tar") as file:
        unpack_tar(file, tmp_path / "unpacked")
    short = git("rev-parse", "--short=7", "HEAD")
    wanted = f"0.4.0.dev1+g{short}" if tagged else f"0.2.0.dev0+g{short}"
    assert find_version(tmp_path / "unpacked") == wanted


def test_a_plain_copy_has_a_hash_of_its_sources(git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy has no `.git`, even inside another repository, or has one but the program `git` is missing."""
    tree = tmp_path / "tree"
    copy = tree / "inside" / "copy"
    shutil.copytree(tree, copy, ignore=shutil.ignore_patterns(".git", "inside"))
    first = find_version(copy)
    assert Version(first).local is not None
    assert first.startswith("0.2.0.dev0+s")
    (copy / "src/workhook/__pycache__").mkdir()
    (copy / "src/workhook/__pycache__/x.pyc").write_bytes(b"x")
    assert find_version(copy) == first
    (copy / "src/workhook/__init__.py").write_text("changed")
    assert find_version(copy) != first
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert find_version(tree) == first


def test_a_source_distribution_keeps_its_version(git: Git, tmp_path: Path) -> None:
    (tmp_path / "tree" / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: workhook\nVersion: 0.7.0.dev3+gabc1234\n")
    assert find_version(tmp_path / "tree") == "0.7.0.dev3+gabc1234"


def test_a_running_checkout_reports_its_current_version() -> None:
    from workhook import __version__

    assert str(Version(__version__)) == __version__
    assert __version__ == find_version(ROOT)
