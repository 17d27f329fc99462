"""Connecting a repository: the files that are written, and hooks that were already there and must keep working."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.git_push.kit import BOUND_S, Receiver, Site, git
from workhook.git_push.install import CHAINED, InstallError, find_git_dir, install


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    site.commit("one")
    yield site
    site.close()


def write_foreign_hook(path: Path, *lines: str, mode: int = 0o755) -> None:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(mode)


def test_the_installation_writes_hook_and_configuration(site: Site) -> None:
    done = site.install("http://127.0.0.1:9", data_dir=Path(os.path.relpath(site.data_dir)))
    assert (done.git_dir, done.chained) == (site.bare, None)
    assert json.loads(done.config.read_text()) == {
        "version": 1,
        "repository": "acme/website",
        "data_dir": str(site.data_dir),
        "token": "ghp_secret",
        "url": "http://127.0.0.1:9",
    }
    assert done.config.stat().st_mode & 0o777 == 0o600
    assert done.config.parent.stat().st_mode & 0o777 == 0o700
    assert done.hook == site.bare / "hooks/post-receive"
    assert os.access(done.hook, os.X_OK)
    assert "ghp_secret" not in done.hook.read_text()


def test_a_second_installation_changes_only_the_configuration(site: Site) -> None:
    write_foreign_hook(site.bare / "hooks/post-receive", "exit 3")
    first = site.install(None)
    script, listing = first.hook.read_bytes(), sorted(os.listdir(site.bare / "hooks"))
    second = site.install("http://127.0.0.1:9", token="ghp_other")
    assert second == first
    assert (first.hook.read_bytes(), sorted(os.listdir(site.bare / "hooks"))) == (script, listing)
    assert json.loads(first.config.read_text())["token"] == "ghp_other"


def test_an_existing_hook_gets_the_same_input_and_keeps_its_status(site: Site, receiver: Receiver) -> None:
    write_foreign_hook(
        site.bare / "hooks/post-receive", 'cat > "$GIT_DIR/seen"', "echo from the old hook >&2", "exit 7"
    )
    done = site.install(receiver.url)
    assert done.chained == site.bare / "hooks" / CHAINED
    assert "remote: from the old hook" in site.push("main", "main:two")
    receiver.payloads(2)
    zero, head = "0" * 40, site.rev("HEAD")
    updates = [f"{zero} {head} refs/heads/{name}" for name in ("main", "two")]
    assert (site.bare / "seen").read_text().splitlines() == updates

    environment = {**os.environ, "GIT_DIR": str(site.bare)}
    run = subprocess.run([done.hook], input=b"", env=environment, capture_output=True, timeout=BOUND_S)
    assert run.returncode == 7


def test_an_existing_hook_may_ignore_its_input(site: Site, receiver: Receiver) -> None:
    write_foreign_hook(site.bare / "hooks/post-receive", "exit 0")
    site.install(receiver.url)
    name, head = "/".join(["long" * 40] * 10), site.rev("HEAD")  # more than a pipe buffers
    lines = "".join(f"create refs/heads/{name}{number} {head}\n" for number in range(60))
    git(site.clone, "update-ref", "--stdin", stdin=lines.encode())
    assert site.push("--all") == ""
    receiver.payloads(61)


def test_a_disabled_hook_stays_disabled(site: Site, receiver: Receiver) -> None:
    write_foreign_hook(site.bare / "hooks/post-receive", "touch ran", mode=0o644)
    site.install(receiver.url)
    site.push("main")
    receiver.payloads(1)
    assert not (site.bare / "ran").exists()
    assert (site.bare / "hooks" / CHAINED).exists()


def test_an_existing_hook_may_be_a_symbolic_link(site: Site, receiver: Receiver, tmp_path: Path) -> None:
    write_foreign_hook(site.bare / "shared.sh", 'touch "$GIT_DIR/ran"')
    (site.bare / "hooks/post-receive").symlink_to("../shared.sh")
    site.install(receiver.url)
    site.push("main")
    receiver.payloads(1)
    assert (site.bare / "ran").exists()
    assert "workhook" not in (site.bare / "shared.sh").read_text()


def test_a_hook_that_replaced_ours_is_kept_in_addition_to_the_older_one(site: Site) -> None:
    hooks = site.bare / "hooks"
    write_foreign_hook(hooks / "post-receive", "# first")
    site.install(None)
    write_foreign_hook(hooks / "post-receive", "# second")
    site.install(None)
    assert "# second" in (hooks / CHAINED).read_text()
    assert "# first" in (hooks / f"{CHAINED}.1").read_text()


def test_hooks_in_another_folder_are_found(site: Site, receiver: Receiver, tmp_path: Path) -> None:
    for number, value in enumerate(("../my hooks", str(tmp_path / "absolute"), "~/home hooks")):
        git(site.bare, "config", "core.hooksPath", value)
        done = site.install(receiver.url)
        expected = [tmp_path / "my hooks", tmp_path / "absolute", tmp_path / "home hooks"][number]
        assert done.hook.resolve() == expected / "post-receive"
        site.push(f"main:refs/heads/b{number}")
        receiver.payloads(number + 1)


def test_a_shared_hooks_folder_does_not_affect_other_repositories(
    site: Site, receiver: Receiver, tmp_path: Path
) -> None:
    git(site.bare, "config", "core.hooksPath", str(tmp_path / "shared"))
    site.install(receiver.url)
    git(tmp_path, "init", "-q", "--bare", "other.git")
    git(tmp_path / "other.git", "config", "core.hooksPath", str(tmp_path / "shared"))
    git(site.clone, "push", "-q", str(tmp_path / "other.git"), "main")
    assert not (tmp_path / "other.git/workhook").exists()
    assert not receiver.requests


def test_disabled_hooks_are_refused(site: Site) -> None:
    git(site.bare, "config", "core.hooksPath", "/dev/null")
    with pytest.raises(InstallError, match=r"core\.hooksPath"):
        site.install(None)
    assert not site.root.exists()


@pytest.mark.parametrize("given", ["work", "work/.git", "linked"])
def test_a_repository_may_have_a_work_tree(site: Site, receiver: Receiver, tmp_path: Path, given: str) -> None:
    git(tmp_path, "clone", "-q", str(site.clone), "work")
    git(tmp_path / "work", "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    done = install(tmp_path / given, "acme/website", data_dir=tmp_path, token="t", url=receiver.url)
    assert done.config == tmp_path / "work/.git/workhook/config.json"
    site.push("main:first")
    git(site.clone, "push", "-q", str(tmp_path / "work"), "main:one")
    git(site.clone, "push", "-q", str(tmp_path / "linked"), "main:two")
    assert [payload["ref"] for payload in receiver.payloads(2)] == ["refs/heads/one", "refs/heads/two"]


def test_a_moved_repository_still_works(site: Site, receiver: Receiver, tmp_path: Path) -> None:
    write_foreign_hook(site.bare / "hooks/post-receive", 'touch "$GIT_DIR/ran"')
    site.install(receiver.url)
    site.bare = site.bare.rename(tmp_path / "moved here.git")
    git(site.clone, "remote", "set-url", "origin", str(site.bare))
    site.push("main")
    receiver.payloads(1)
    assert (site.bare / "ran").exists()


def test_a_folder_that_is_not_a_repository_is_refused(site: Site, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (site.clone / "sub").mkdir()
    for path in (tmp_path / "plain", tmp_path / "absent", site.clone / "sub", site.bare / "refs", site.bare / "config"):
        with pytest.raises(InstallError, match="neither a Git repository nor the top of a work tree"):
            find_git_dir(path)
        assert not (path / "workhook").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"token": ""}, "token"),
        ({"token": "a\nb"}, "token"),
        ({"url": "127.0.0.1:8000"}, "http"),
        ({"python": "/nowhere/python"}, "cannot be run"),
        ({"python": "/bin/false"}, "cannot import workhook"),
    ],
)
def test_invalid_values_are_refused(site: Site, change: dict[str, str], said: str) -> None:
    values: dict[str, str | None] = {"url": None, **change}
    with pytest.raises(InstallError, match=said):
        site.install(values.pop("url"), **values)
    assert not site.root.exists()
    assert not (site.bare / "hooks/post-receive").exists()


@pytest.mark.parametrize("repository", ["acme", "acme/", "/website", "a/b/c", "acme/web site", ""])
def test_a_repository_name_must_be_owner_and_name(site: Site, repository: str) -> None:
    with pytest.raises(InstallError, match="OWNER/NAME"):
        install(site.bare, repository, data_dir=site.data_dir, token="t", url=None)


OWNER = 10_001  # not a user of this machine


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can install for another user")
def test_root_installs_for_the_owner_of_the_repository(site: Site, tmp_path: Path) -> None:
    """The owner's pushes can be recorded in the queue that root has created, also after root has sent its contents."""
    for folder in tmp_path.parents:
        if folder != Path("/") and folder.stat().st_uid == 0 and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    tmp_path.chmod(0o755)
    line = f"{'0' * 40} {'a' * 40} refs/heads/main\n"
    subprocess.run(["chown", "-R", str(OWNER), str(site.bare)], check=True)
    python = tmp_path / "python"
    source = Path(__file__).parents[2] / "src"
    python.write_text(
        "#!/bin/sh\nfor last; do :; done\n"
        f'exec /usr/bin/python3 -c \'import sys; sys.path.insert(0, "{source}"); '
        'from workhook.git_push.__main__ import main; sys.exit(main(sys.argv[1:]))\' "$last"\n'
    )
    python.chmod(0o755)
    done = install(site.bare, "acme/website", data_dir=tmp_path, token="ghp_secret", url=None, python=str(python))
    assert {path.stat().st_uid for path in [done.config.parent, *done.config.parent.rglob("*")]} == {OWNER}
    for number in (1, 2):
        ran = subprocess.run(
            [str(done.hook)], input=line, text=True, capture_output=True, cwd=site.bare, user=OWNER, group=OWNER,
            extra_groups=[], env={"PATH": os.environ["PATH"], "GIT_DIR": "."}, check=False, timeout=60,
        )  # fmt: skip
        assert (ran.returncode, ran.stderr) == (0, "")
        assert len(list((done.config.parent / "spool").glob("*.json"))) == number
        sent = subprocess.run(
            [sys.executable, "-m", "workhook", "git-hook", "send", "--git-dir", str(site.bare), "--json"],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert json.loads(sent.stdout)["pending"] == number
        assert {path.stat().st_uid for path in done.config.parent.rglob("*")} == {OWNER}


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can install for another user")
def test_root_cannot_install_a_python_that_the_owner_cannot_run(site: Site, tmp_path: Path) -> None:
    subprocess.run(["chown", "-R", str(OWNER), str(site.bare)], check=True)
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    (hidden / "python").symlink_to(sys.executable)
    with pytest.raises(InstallError, match="owner"):
        install(site.bare, "acme/website", data_dir=tmp_path, token="ghp_x", url=None, python=str(hidden / "python"))
    assert not (site.bare / "workhook").exists()
