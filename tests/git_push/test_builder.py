"""Payloads of unusual repositories: missing objects, shallow clones, personal configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.git_push.kit import Json, Site, git
from workhook.git_push import spool
from workhook.git_push.payload import PayloadBuilder

ZERO = "0" * 40


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def ids(payload: Json) -> list[str]:
    return [commit["id"] for commit in payload["commits"]]


def update(before: str, after: str, ref: str = "refs/heads/main") -> spool.RefUpdate:
    return spool.RefUpdate("1.0", before, after, ref)


def entry(*updates: spool.RefUpdate, refs: tuple[tuple[str, str], ...] | None = ()) -> spool.Push:
    return spool.Push(0, "octo", None, (), updates, refs)


def build(site: Site, change: spool.RefUpdate, **more: tuple[tuple[str, str], ...] | None) -> Json:
    return PayloadBuilder(
        site.clone / ".git", entry(change, **more), repository="acme/website", base_url="http://x"
    ).build(change)


def test_missing_objects_are_tolerated(site: Site) -> None:
    site.commit("one")
    head = site.commit("two")
    lost = "1" * 40

    payload = build(site, update(ZERO, lost))
    assert (payload["commits"], payload["head_commit"], payload["forced"]) == ([], None, False)
    payload = build(site, update(lost, head))
    assert (payload["commits"], payload["forced"]) == ([], True)
    assert payload["head_commit"]["id"] == head
    payload = build(site, update(ZERO, head), refs=((lost, "refs/heads/other"),))
    assert len(payload["commits"]) == 2


def test_new_commits_count_for_branches_before_tags(site: Site) -> None:
    head = site.commit("one")
    tag, branch = update(ZERO, head, "refs/tags/v1"), update(ZERO, head)
    refs = ((head, branch.ref), (head, tag.ref))
    builder = PayloadBuilder(site.clone / ".git", entry(tag, branch, refs=refs), repository="a/b", base_url="")
    found = [builder.build(change) for change in (tag, branch)]
    assert [(ids(payload), payload["base_ref"]) for payload in found] == [([], branch.ref), ([head], None)]


def test_without_a_snapshot_the_current_refs_are_used(site: Site) -> None:
    one = site.commit("one")
    two = site.commit("two")
    git(site.clone, "branch", "old", one)
    assert ids(build(site, update(ZERO, two), refs=None)) == [two]


def test_a_shallow_repository_lists_only_its_commits(site: Site, tmp_path: Path) -> None:
    for number in range(3):
        site.commit(f"{number}", {f"{number}": ""})
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{site.clone}", "shallow")
    change = update(ZERO, site.rev("HEAD"))
    built = PayloadBuilder(tmp_path / "shallow/.git", entry(change), repository="a/b", base_url="").build(change)
    assert ids(built) == [site.rev("HEAD")]


def test_personal_git_configuration_has_no_effect(site: Site) -> None:
    site.commit("one", {"a": "some text\n" * 20})
    (site.clone / "a").rename(site.clone / "b")
    head = site.commit("two")
    plain = build(site, update(ZERO, head))
    for name, value in {
        "diff.renames": "copies",
        "log.showSignature": "true",
        "color.ui": "always",
        "core.quotePath": "true",
        "diff.external": "false",
        "i18n.logOutputEncoding": "UTF-16",
        "diff.noprefix": "true",
        "log.date": "relative",
    }.items():
        git(site.clone, "config", name, value)
    assert build(site, update(ZERO, head)) == plain
