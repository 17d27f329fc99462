"""The payloads of real pushes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.git_push.kit import Json, Receiver, Site, eventually, git
from workhook.git_push.hook import post_receive
from workhook.git_push.sender import send_pending
from workhook.git_push.spool import LOG_BYTES, HookFolder

ZERO = "0" * 40


def ids(payload: Json) -> list[str]:
    return [commit["id"] for commit in payload["commits"]]


def by_ref(payloads: list[Json]) -> dict[str, Json]:
    return {payload["ref"]: payload for payload in payloads}


def test_three_commits_and_a_tag_in_one_push(site: Site, receiver: Receiver) -> None:
    first = site.commit("First\n\nWith a body.", {"a.txt": "1", "dir/b.txt": "1"})
    second = site.commit("Second", {"a.txt": "2"})
    (site.clone / "a.txt").rename(site.clone / "c.txt")
    third = site.commit("Third")
    git(site.clone, "tag", "-a", "v1", "-m", "version 1")
    site.push("main", "v1")

    found = by_ref(receiver.payloads(2))
    branch, tag = found["refs/heads/main"], found["refs/tags/v1"]
    assert ids(branch) == [first, second, third]
    assert branch["commits"][0] == {
        "id": first,
        "tree_id": site.rev(f"{first}^{{tree}}"),
        "distinct": True,
        "message": "First\n\nWith a body.",
        "timestamp": "2026-03-02T11:30:00+02:00",
        "url": f"{receiver.url}/acme/website/commit/{first}",
        "author": {"name": "Ada Löwe", "email": "ada@example.com"},
        "committer": {"name": "Carl", "email": "carl@example.com"},
        "added": ["a.txt", "dir/b.txt"],
        "removed": [],
        "modified": [],
    }
    assert branch["commits"][1]["modified"] == ["a.txt"]
    assert (branch["commits"][2]["added"], branch["commits"][2]["removed"]) == (["c.txt"], ["a.txt"])
    assert branch["head_commit"] == branch["commits"][2]
    rest = {key: value for key, value in branch.items() if key not in ("commits", "head_commit")}
    assert rest == {
        "ref": "refs/heads/main",
        "before": ZERO,
        "after": third,
        "base_ref": None,
        "created": True,
        "deleted": False,
        "forced": False,
        "compare": f"{receiver.url}/acme/website/compare/{'0' * 12}...{third[:12]}",
        "pusher": {"name": "octo", "email": "carl@example.com"},
    }
    assert tag["after"] == site.rev("v1") != third
    assert tag["head_commit"]["id"] == third
    assert (tag["commits"], tag["base_ref"], tag["created"]) == ([], "refs/heads/main", True)


def test_a_request_has_path_token_and_a_unique_id(site: Site, receiver: Receiver) -> None:
    site.commit("one")
    site.push("main", "main:second")
    receiver.payloads(2)
    assert {(request.path, request.authorization, request.body["event"]) for request in receiver.requests} == {
        ("/repos/acme/website/events", "Bearer ghp_secret", "push")
    }
    numbers = {request.body["id"] for request in receiver.requests}
    assert len(numbers) == 2
    assert all(0 < len(number) <= 128 for number in numbers)


def test_creating_and_deleting_a_branch_is_reported(site: Site, receiver: Receiver) -> None:
    site.commit("one")
    site.push("main")
    site.push("main:empty")
    git(site.clone, "checkout", "-qb", "topic")
    two = site.commit("two")
    site.push("topic")
    site.push(":topic")

    _, empty, created, deleted = receiver.payloads(4)
    assert (empty["created"], empty["base_ref"], ids(empty)) == (True, "refs/heads/main", [])
    assert empty["head_commit"]["id"] == site.rev("main")
    assert (created["created"], created["base_ref"], ids(created)) == (True, None, [two])
    assert deleted["before"] == two
    assert deleted["after"] == ZERO
    assert (deleted["created"], deleted["deleted"], deleted["forced"]) == (False, True, False)
    assert (deleted["commits"], deleted["head_commit"]) == ([], None)
    assert deleted["compare"].endswith(f"/compare/{two[:12]}...{'0' * 12}")


def test_a_forced_push_is_marked(site: Site, receiver: Receiver) -> None:
    site.commit("one")
    old = site.commit("two")
    site.push("main")
    git(site.clone, "reset", "-q", "--hard", "HEAD~1")
    new = site.commit("other two")
    site.push("+main")
    newer = site.commit("three")
    site.push("main")

    _, forced, normal = receiver.payloads(3)
    assert (forced["forced"], forced["before"], ids(forced)) == (True, old, [new])
    assert (normal["forced"], normal["before"], ids(normal)) == (False, new, [newer])


def test_a_merge_lists_its_new_commits(site: Site, receiver: Receiver) -> None:
    site.commit("base", {"base": ""})
    git(site.clone, "checkout", "-qb", "topic")
    topic = site.commit("topic", {"topic": ""})
    site.push("main", "topic")
    git(site.clone, "checkout", "-q", "main")
    mine = site.commit("mine", {"mine": ""})
    git(site.clone, "merge", "-q", "--no-edit", "topic")
    site.push("main")

    payload = receiver.payloads(3)[-1]
    commits = {commit["id"]: commit for commit in payload["commits"]}
    assert set(commits) == {topic, mine, site.rev("main")}
    assert ids(payload)[-1] == site.rev("main")
    assert {oid: commit["distinct"] for oid, commit in commits.items()} == {
        topic: False,  # pushed before, on its own branch
        mine: True,
        site.rev("main"): True,
    }
    assert commits[site.rev("main")]["added"] == ["topic"]


def test_octopus_merges_and_empty_commits_are_listed(site: Site, receiver: Receiver) -> None:
    site.commit("empty root")
    for name in ("one", "two", "three"):
        git(site.clone, "checkout", "-qb", name, "main")
        site.commit(name, {name: ""})
    git(site.clone, "checkout", "-q", "main")
    git(site.clone, "merge", "-q", "--no-ff", "--no-edit", "one", "two", "three")
    site.push("main")

    [payload] = receiver.payloads(1)
    assert len(payload["commits"]) == 5
    assert payload["commits"][0]["added"] == []
    assert payload["head_commit"]["added"] == ["one", "three", "two"]


def test_each_commit_is_new_in_only_one_ref_of_a_push(site: Site, receiver: Receiver) -> None:
    one = site.commit("one")
    git(site.clone, "branch", "a")
    two = site.commit("two")
    git(site.clone, "branch", "b")
    site.push("a", "b")

    found = by_ref(receiver.payloads(2))
    assert ids(found["refs/heads/a"]) == [one]
    assert ids(found["refs/heads/b"]) == [two]


def test_a_renamed_branch_has_no_new_commits(site: Site, receiver: Receiver) -> None:
    site.commit("one")
    site.push("main:refs/heads/old")
    site.push(":old", "main:refs/heads/new")
    found = by_ref(receiver.payloads(3)[1:])
    assert (found["refs/heads/new"]["commits"], found["refs/heads/new"]["base_ref"]) == ([], None)
    assert found["refs/heads/old"]["deleted"]


def test_a_push_may_have_three_hundred_refs(site: Site, receiver: Receiver) -> None:
    for number in range(3):
        site.commit(f"commit {number}")
    lines = "".join(f"create refs/heads/b{number:03d} {site.rev('HEAD')}\n" for number in range(300))
    git(site.clone, "update-ref", "--stdin", stdin=lines.encode())
    git(site.clone, "branch", "-qm", "main", "zz")
    site.push("refs/heads/b*:refs/heads/b*")

    payloads = receiver.payloads(300)
    assert [payload["ref"] for payload in payloads] == [f"refs/heads/b{number:03d}" for number in range(300)]
    assert [len(payload["commits"]) for payload in payloads] == [3] + [0] * 299
    assert all(payload["head_commit"]["id"] == site.rev("HEAD") for payload in payloads)
    assert len({request.body["id"] for request in receiver.requests}) == 300


def test_file_names_may_contain_any_bytes(site: Site, receiver: Receiver) -> None:
    names = ["with space", 'quo"te', "new\nline", "tab\t", "ünï", "-dash", "back\\slash", "*", "M", "A"]
    site.commit("names", dict.fromkeys(names, ""))
    (site.clone / os.fsdecode(b"raw\xff")).write_text("")
    (site.clone / os.fsdecode(b"raw\xfe")).write_text("")
    site.commit("raw")
    site.push("main")

    [payload] = receiver.payloads(1)
    assert sorted(payload["commits"][0]["added"]) == sorted(names)
    assert sorted(payload["commits"][1]["added"]) == ["raw\\xfe", "raw\\xff"]


def test_a_file_with_a_changed_type_is_modified(site: Site, receiver: Receiver) -> None:
    site.commit("file", {"a": "x"})
    (site.clone / "a").unlink()
    (site.clone / "a").symlink_to("elsewhere")
    site.commit("link")
    site.push("main")
    assert receiver.payloads(1)[0]["head_commit"]["modified"] == ["a"]


def test_commit_messages_in_other_encodings_are_decoded(site: Site, receiver: Receiver) -> None:
    latin = "Grüße".encode("latin-1")
    git(site.clone, "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--allow-empty", "-F", "-", stdin=latin)
    people = "author A <a@b> 1 +0000\ncommitter A <a@b> 2 +0000\n"
    head = f"tree {site.rev('HEAD^{tree}')}\nparent {site.rev('HEAD')}\n{people}"
    raw = head.encode() + b"encoding no-such-encoding\n\nbro\xffken \xc3\xbc\n"
    oid = git(site.clone, "hash-object", "-t", "commit", "-w", "--stdin", stdin=raw)
    site.push(f"{oid}:refs/heads/main")
    assert [commit["message"] for commit in receiver.payloads(1)[0]["commits"]] == ["Grüße", "bro\ufffdken ü"]


@pytest.mark.parametrize(
    ("date", "shown"),
    [
        ("1700000000 +0000", "2023-11-14T22:13:20Z"),
        ("1700000000 -0930", "2023-11-14T12:43:20-09:30"),
        ("99999999999999 +0000", "1970-01-01T00:00:00Z"),
        ("1700000000 +9900", "1970-01-01T00:00:00Z"),
    ],
)
def test_commit_times_are_in_iso_format(site: Site, receiver: Receiver, date: str, shown: str) -> None:
    tree = git(site.clone, "write-tree")
    raw = f"tree {tree}\nauthor A <a@b> 1 +0000\ncommitter C <c@d> {date}\n\nmessage\n".encode()
    oid = git(site.clone, "hash-object", "-t", "commit", "-w", "--stdin", "--literally", stdin=raw)
    site.push(f"{oid}:refs/heads/main")
    assert receiver.payloads(1)[0]["head_commit"]["timestamp"] == shown


def test_tags_of_every_kind_are_reported(site: Site, receiver: Receiver) -> None:
    commit = site.commit("one", {"a": "1"})
    site.push("main")
    git(site.clone, "tag", "light")
    git(site.clone, "tag", "-a", "-m", "m", "inner")
    git(site.clone, "tag", "-a", "-m", "m", "outer", "inner")
    git(site.clone, "tag", "blob", site.rev("HEAD:a"))
    git(site.clone, "tag", "tree", site.rev("HEAD^{tree}"))
    git(site.clone, "tag", "-a", "-m", "m", "blobtag", "blob")
    site.push("--tags")

    found = by_ref(receiver.payloads(7))
    assert {ref.split("/")[-1]: (payload["head_commit"] or {}).get("id") for ref, payload in found.items()} == {
        "main": commit,
        "light": commit,
        "inner": commit,
        "outer": commit,
        "blob": None,
        "tree": None,
        "blobtag": None,
    }
    assert found["refs/tags/outer"]["after"] == site.rev("outer")
    assert found["refs/tags/light"]["base_ref"] == "refs/heads/main"
    assert found["refs/tags/blob"]["base_ref"] is None


def test_a_tagged_blob_does_not_affect_a_branch(site: Site, receiver: Receiver) -> None:
    one = site.commit("one", {"a": "1"})
    site.push(f"{site.rev('HEAD:a')}:refs/tags/blob")
    site.push("main")
    assert ids(receiver.payloads(2)[1]) == [one]


def test_a_tag_may_have_its_own_commits_and_be_moved(site: Site, receiver: Receiver) -> None:
    one = site.commit("one")
    git(site.clone, "tag", "v1")
    site.push("v1")
    two = site.commit("two")
    git(site.clone, "tag", "-f", "v1")
    site.push("+v1")

    created, moved = receiver.payloads(2)
    assert ids(created) == [one]
    assert (ids(moved), moved["forced"], moved["created"]) == ([two], False, False)


def test_a_sha_256_repository_is_supported(tmp_path: Path, receiver: Receiver) -> None:
    (tmp_path / "wide").mkdir()
    site = Site(tmp_path / "wide", object_format="sha256")
    site.install(receiver.url)
    one = site.commit("one", {"a": "1"})
    site.push("main")
    site.push("main:other")
    site.push(":other")

    created, other, deleted = receiver.payloads(3)
    assert len(one) == 64
    assert created["before"] == deleted["after"] == "0" * 64
    assert created["commits"][0]["added"] == ["a"]
    assert (ids(created), ids(other), created["created"], deleted["deleted"]) == ([one], [], True, True)
    site.close()


def test_pusher_and_push_options_are_reported(site: Site, receiver: Receiver) -> None:
    git(site.bare, "config", "user.email", "server@example.com")
    site.commit("one")
    site.push("-o", "ci.skip", "-o", "note=a b", "main", env={"REMOTE_USER": "remote"})
    site.push("main:two", env={"REMOTE_USER": "remote", "WORKHOOK_PUSHER": "hübot", "WORKHOOK_PUSHER_EMAIL": "h@x.org"})

    first, second = receiver.payloads(2)
    assert first["pusher"] == {"name": "remote", "email": "server@example.com"}
    assert first["push_options"] == ["ci.skip", "note=a b"]
    assert second["pusher"] == {"name": "hübot", "email": "h@x.org"}
    assert "push_options" not in second


def test_a_ref_name_may_be_invalid_utf_8(site: Site, receiver: Receiver) -> None:
    one = site.commit("one")
    site.push(os.fsdecode(b"main:refs/heads/raw\xff"))
    [payload] = receiver.payloads(1)
    assert (payload["ref"], ids(payload)) == ("refs/heads/raw\\xff", [one])


def test_a_long_push_lists_only_the_newest_commits(site: Site, receiver: Receiver) -> None:
    stream = "".join(
        f"commit refs/heads/long\ncommitter C <c@d> {1_700_000_000 + number} +0000\ndata 4\n{number:04d}\n"
        for number in range(2100)
    )
    git(site.clone, "fast-import", "--quiet", stdin=stream.encode())
    site.push("long")
    [payload] = receiver.payloads(1)
    assert [commit["message"] for commit in payload["commits"]] == [f"{number:04d}" for number in range(52, 2100)]


# --- Hook ------------------------------------------------------------------------------------------------------------
# A pusher sees nothing of the hook, or one line.


def test_a_push_succeeds_when_it_cannot_be_recorded(ready: Site) -> None:
    (ready.root / "spool").rmdir()
    (ready.root / "spool").write_text("not a folder")
    said = ready.push("main:other")
    assert said.count("\n") == 1
    assert "remote: workhook: this push could not be recorded" in said


def test_a_push_succeeds_without_a_configuration_and_is_kept(ready: Site, receiver: Receiver) -> None:
    (ready.root / "config.json").unlink()
    assert ready.push("main:other") == ""
    eventually(lambda: "run the installation again" in (ready.root / "log").read_text())
    ready.install(receiver.url)
    assert send_pending(ready.bare).sent == 1


def test_a_push_succeeds_if_the_interpreter_is_broken_or_missing(
    ready: Site, tmp_path: Path, receiver: Receiver
) -> None:
    python = tmp_path / "bin with space" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    ready.install(receiver.url, python=str(python))
    ready.push("main:two")
    receiver.payloads(1)
    python.write_text("#!/bin/sh\necho Traceback >&2\necho more >&2\nexit 1\n")
    broken = ready.push("main:three")
    python.unlink()
    missing = ready.push("main:four")
    for said in (broken, missing):
        assert said.count("\n") == 1
        assert "remote: workhook: the hook cannot run" in said


def test_the_repository_cannot_inject_modules(ready: Site, receiver: Receiver) -> None:
    for name in ("json", "workhook", "subprocess", "sitecustomize"):
        (ready.bare / f"{name}.py").write_text("open('injected', 'w')\nraise SystemExit(3)\n")
    assert ready.push("main:other", env={"PYTHONPATH": str(ready.bare), "PYTHONSTARTUP": "json.py"}) == ""
    receiver.payloads(1)
    assert not (ready.bare / "injected").exists()


def test_gits_environment_variables_are_ignored(
    ready: Site, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "gone"))
    monkeypatch.setenv("GIT_DIR", ".")
    oid = (ready.bare / "refs/heads/main").read_text().strip()
    monkeypatch.chdir(ready.bare)
    assert post_receive(Path("."), [f"{ZERO} {oid} refs/heads/x\n", "nonsense\n", "\n"]) == 0
    [payload] = receiver.payloads(1)
    assert (payload["ref"], payload["head_commit"]["id"]) == ("refs/heads/x", oid)


def test_a_push_without_valid_updates_is_not_recorded(ready: Site) -> None:
    assert post_receive(ready.bare, []) == 0
    assert post_receive(ready.bare, ["a b\n", f"{ZERO} -x refs/heads/y\n"]) == 0
    assert not ready.waiting()


def test_a_repository_that_is_not_connected_is_not_changed(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "other.git")
    assert post_receive(tmp_path / "other.git", [f"{ZERO} {'1' * 40} refs/heads/x\n"]) == 0
    assert not (tmp_path / "other.git/workhook").exists()


def test_the_hook_imports_few_modules() -> None:
    """A push waits for these imports, so they must not include installed packages or slow modules."""
    code = "import sys, workhook.git_push.__main__, workhook.git_push.hook; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-E", "-P", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "workhook.git_push.spool" in loaded
    heavy = {"typer", "click", "rich", "aiohttp", "asyncio", "sqlalchemy", "msgspec", "ssl", "http", "dataclasses"}
    assert not loaded & heavy


def test_the_log_is_bounded_and_private(ready: Site) -> None:
    log = HookFolder(ready.bare).log
    line = "x" * 100_000
    for _ in range(3 * LOG_BYTES // len(line)):
        log.info(line)
    sizes = [path.stat().st_size for path in ready.root.glob("log*")]
    assert len(sizes) == 2
    assert max(sizes) < LOG_BYTES + 2 * len(line)
    assert "ghp_secret" not in (ready.root / "log").read_text()
    assert (ready.root / "log").stat().st_mode & 0o777 == 0o600
