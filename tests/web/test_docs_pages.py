"""The documentation without scripts: public access, its content security policy, and completeness."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.server import Server
from tests.web.browser import Browser, policy_of
from workhook.web.docs import guide

pytestmark = pytest.mark.one_database

ROOT = Path(__file__).parents[2]
PAGES = sorted(guide.pages())


@pytest.fixture(scope="module")
def anybody(server: Server) -> Iterator[Browser]:
    with Browser(server) as browser:
        yield browser


def test_the_guide_has_every_page_except_those_for_contributors() -> None:
    docs = ROOT / "docs"
    folders = [docs / folder for _, folder in guide.SECTIONS]
    written = {each.relative_to(docs).with_suffix("").as_posix() for folder in folders for each in folder.glob("*.md")}
    assert {each.removesuffix("/README") for each in written} == set(PAGES)


def test_every_page_is_in_the_contents() -> None:
    listed = [each.name for _, pages in guide.contents() for each in pages]
    assert sorted(listed) == PAGES


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_public(anybody: Browser, name: str) -> None:
    answer = anybody.get(f"/docs/guide/{name}")
    assert answer.status_code == 200
    assert answer.text.count("<h1") == 1
    assert not re.search(r"<script(?! type=\"importmap\"| src=| type=\"module\")|<style|\sstyle=|\son\w+=", answer.text)
    assert "unsafe" not in " ".join(policy_of(answer).values())


def test_guide_pictures_are_local_and_cached(anybody: Browser) -> None:
    page = anybody.get("/docs/guide/team/places").text
    shown = re.findall(
        r'<a href="([^"]*)"><img src="([^"]*)" alt="[^"]+" width="(\d+)" height="(\d+)" loading="lazy"', page
    )
    assert len(shown) == page.count("<img") - 1 > 100, "all but the mark of the page"
    for target, source, width, height in shown:
        answer = anybody.get(source)
        assert answer.status_code == 200, source
        assert answer.headers["content-type"] == "image/webp"
        assert "immutable" in answer.headers["cache-control"]
        assert "content-encoding" not in answer.headers
        assert target == source
        assert int(width) in (1280, 390), source
        assert int(height) >= 800, source


def test_links_between_pages_point_to_existing_pages_and_headings() -> None:
    """Links to other files, such as sources and examples, are plain text."""
    anchors = {each.name: {section.anchor for section in each.sections} for each in guide.pages().values()}
    count = 0
    for page in guide.pages().values():
        for target in re.findall(r'href="([^"]*)"', page.html):
            if re.match("[a-z]+:|/static/", target):
                continue
            address, _, anchor = target.partition("#")
            if address == "/docs":
                continue
            name = address.removeprefix("/docs/guide/") if address else page.name
            assert name in anchors, f"{page.name}: {target}"
            assert not anchor or anchor in anchors[name], f"{page.name}: {target}"
            count += 1
    assert count > 100


def test_missing_pages_are_not_found(anybody: Browser) -> None:
    for path in (
        "nope",
        "team/nope",
        "team/README",
        "..%2f..%2fpyproject",
        "contributors",
        "contributors/architecture",
    ):
        assert anybody.get(f"/docs/guide/{path}").status_code in (400, 404), path


def test_the_search_finds_sections_with_all_words(anybody: Browser) -> None:
    hits = guide.search("ROTATE secret")
    assert hits[0].section.heading == "Rotate a secret"
    assert all("rotate" in f"{h.page.title} {h.section.heading} {h.section.text}".lower() for h in hits)
    assert len(guide.search("the")) == guide.HITS_MAX
    assert guide.search(" ") == guide.search("nosuchwordanywhere") == []
    assert "/docs/guide/integrators/webhooks#rotate-a-secret" in anybody.get("/docs/search?q=rotate+secret").text


def test_unknown_words_do_not_hide_other_results(anybody: Browser) -> None:
    hits = guide.search("rotate secret nosuchwordanywhere")
    assert hits[0].section.heading == "Rotate a secret"
    assert {each.missing for each in hits} == {("nosuchwordanywhere",)}
    page = anybody.get("/docs/search?q=rotate+secret+nosuchwordanywhere").text
    assert "No section contains all of these words. The following contain most of them." in page
    assert "missing: nosuchwordanywhere" in page
    assert guide.search("secret nosuchwordanywhere neitherthis") == []


def test_the_search_finds_operations_of_the_api(anybody: Browser) -> None:
    page = anybody.get("/docs/search?q=redeliver").text
    assert (
        'href="/docs#repository_hooks_deliveries_redeliver"' in page
        or 'href="/docs#repository_deliveries_redeliver"' in page
    )
    assert "POST /repos/{owner}/{repo}/hooks/{hook_id}/deliveries/{delivery_id}/attempts" in page
    page = anybody.get("/docs/search?q=/api/v1/projects").text
    assert "GET /api/v1/projects" in page
    assert "place_" not in page


def test_the_search_text_is_escaped(anybody: Browser) -> None:
    hostile = "<b>\"'\u202e" + "x" * 300
    page = anybody.get("/docs/search", params={"q": hostile}).text
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "No results. Try fewer words." in page


def test_signed_in_users_keep_their_navigation(server: Server) -> None:
    with Browser.of(server, server.world().owner) as browser:
        for path in ("/docs", "/docs/search?q=token", "/docs/guide/integrators/tokens"):
            page = browser.get(path)
            assert page.status_code == 200
            assert 'action="/logout"' in page.text
            assert page.text.count("<h1") == 1, path
        assert f"<h1>{guide.pages()['integrators/tokens'].title}</h1>" in page.text


def test_the_guide_starts_with_pages_for_the_team(anybody: Browser) -> None:
    title, first = guide.contents()[0]
    assert (title, first[0].name) == ("For your team", "team")
    page = anybody.get("/docs").text
    assert re.findall(r'href="/docs/guide/([^"]+)"', page)[0] == "team"
    side = anybody.get("/docs/guide/operators/security").text
    assert re.findall(r'href="(/docs[/#][^"]+)"', side)[0] == "/docs/guide/team"


def test_without_scripts_no_loading_message_is_shown(anybody: Browser) -> None:
    [waiting] = re.findall(r"<p [^>]*data-reference-target=[^>]*>", anybody.get("/docs").text)
    assert " hidden" in waiting


def test_only_the_reference_loads_the_viewer(server: Server, anybody: Browser) -> None:
    assert "/static/swagger-ui.js" in anybody.get("/docs").text
    with Browser.of(server, server.world().owner) as browser:
        for path in ("/", "/docs/guide/operators/security", "/docs/search"):
            assert "swagger-ui" not in browser.get(path).text, path
