"""Assets of pages: hashed addresses, the import map and the policy that permits it, icons and caching."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.server import Server
from tests.web.browser import Browser, policy_of
from workhook.web.frame import assets

pytestmark = pytest.mark.one_database

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src/workhook/web/static"
SCRIPTS = sorted((STATIC / "js").glob("*.js"))
TEMPLATES = sorted((ROOT / "src/workhook/web/templates").rglob("*.html"))
CODE = sorted((ROOT / "src/workhook/web").rglob("*.py"))
FOR_EVER = "public, max-age=31536000, immutable"


@pytest.fixture(scope="module")
def board(server: Server) -> Iterator[tuple[str, dict[str, str]]]:
    world = server.world()
    with Browser.of(server, world.owner) as browser:
        answer = browser.get(f"/{world.full_name}")
        assert answer.status_code == 200
        yield answer.text, policy_of(answer)


def import_map(page: str) -> dict[str, str]:
    [text] = re.findall(r'<script type="importmap">(.*?)</script>', page)
    imports: dict[str, str] = json.loads(text)["imports"]
    return imports


def test_the_policy_permits_the_import_map(board: tuple[str, dict[str, str]]) -> None:
    page, policy = board
    [text] = re.findall(r'<script type="importmap">(.*?)</script>', page)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert policy["script-src"] == f"'self' 'sha256-{digest}'"


def test_no_page_needs_an_exception_in_the_policy(board: tuple[str, dict[str, str]]) -> None:
    _, policy = board
    assert "unsafe" not in " ".join(policy.values())
    letter = "letter.html"  # not a page, because e-mails contain their own styles
    for template in (each for each in TEMPLATES if each.name != letter):
        text = template.read_text()
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text), template
        assert not re.findall(r"<script(?![^>]*\ssrc=)(?! type=\"importmap\">)", text), template
        assert not re.search(r"""(src|href|action)=["']?(https?:)?//""", text), f"{template} leaves the origin"


def test_the_nonce_differs_in_every_response(server: Server) -> None:
    world = server.world()
    with Browser.of(server, world.owner) as browser:
        answers = [browser.get(f"/{world.full_name}") for _ in range(2)]
    nonces = [re.findall(r'name="csp-nonce" content="([\w-]{22})"', each.text) for each in answers]
    for answer, [nonce] in zip(answers, nonces, strict=True):
        assert f"style-src 'self' 'nonce-{nonce}';" in answer.headers["content-security-policy"]
    assert nonces[0] != nonces[1]


def test_every_imported_module_is_in_the_import_map(board: tuple[str, dict[str, str]]) -> None:
    known = set(import_map(board[0]))
    for script in SCRIPTS:
        text = script.read_text()
        named = re.findall(r"""^import\s(?:[^"';]*?\sfrom\s)?["']([^"']+)["']""", text, re.MULTILINE)
        assert set(named) <= known, script
        assert len(named) == len(re.findall(r"^import\s", text, re.MULTILINE)), script
    pages = "".join(each.read_text() for each in TEMPLATES)
    controllers = re.findall(r"{% block controllers %}([\w\- ]*){% endblock %}", pages)
    for name in " ".join(controllers).split():
        assert f"workhook/{name}" in known, name


def test_every_controller_named_by_a_page_exists() -> None:
    """`app.js` loads the common controllers, and pages name the others that they need."""
    names = {each.stem for each in SCRIPTS}
    for template in TEMPLATES:
        for value in re.findall(r'data-controller="([^"{]+)"', template.read_text()):
            assert set(value.split()) <= names, template


def test_every_asset_address_serves_its_file(server: Server, board: tuple[str, dict[str, str]]) -> None:
    page, _ = board
    addresses = {*import_map(page).values(), *re.findall(r'(?:src|href)="(/static/[^"#]+)', page)}
    assert len(addresses) > 10
    with Browser(server) as browser:
        for address in addresses:
            answer = browser.get(address)
            assert answer.status_code == 200, address
            assert answer.headers["cache-control"] == FOR_EVER, address
            assert answer.headers["x-content-type-options"] == "nosniff"
            kind = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
            assert answer.headers["content-type"] == kind[address.partition("?")[0].rpartition(".")[2]], address
            assert address.endswith("?v=" + hashlib.sha256(answer.content).hexdigest()[:12])


@pytest.mark.parametrize("query", ["", "?v=", "?v=000000000000"])
def test_an_asset_without_its_hash_is_not_cached_permanently(server: Server, query: str) -> None:
    """The request may come from a page of another server version, so the content does not match the requested hash."""
    with Browser(server) as browser:
        answer = browser.get(f"/static/app.js{query}")
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")


def test_a_cached_file_is_not_sent_again(server: Server) -> None:
    """Each encoding has its own ETag, and a cache revalidates with the one it stored."""
    tags = set()
    with Browser(server) as browser:
        for encoding in ("br", "zstd", "gzip", "identity"):
            headers = {"Accept-Encoding": encoding}
            first = browser.get("/static/app.js", headers=headers)
            assert first.headers.get("content-encoding", "identity") == encoding
            assert first.headers["vary"] == "Accept-Encoding"
            tag = first.headers["etag"]
            tags.add(tag)
            again = browser.get("/static/app.js", headers={**headers, "If-None-Match": tag})
            assert (again.status_code, again.content) == (304, b"")
            assert (again.headers["etag"], again.headers["vary"]) == (tag, "Accept-Encoding")
        assert len(tags) == 4
        assert "accept-ranges" not in first.headers
        part = browser.get("/static/app.js", headers={"Range": "bytes=0-9", "Accept-Encoding": "gzip"})
        assert (part.status_code, part.headers["content-encoding"]) == (200, "gzip")


@pytest.mark.parametrize("name", ["made-from", "nope.js", "..%2f..%2foperations.py", "%2e%2e", "js", "app.js%00"])
def test_only_assets_are_served(server: Server, name: str) -> None:
    with Browser(server) as browser:
        assert browser.get(f"/static/{name}").status_code in (400, 404)


def _icons_used() -> set[str]:
    in_templates = "\n".join(each.read_text() for each in TEMPLATES)
    found = set(re.findall(r"""\bicon\(\s*["']([a-z0-9-]+)["']""", in_templates))
    choices = re.findall(r"""["']([a-z0-9]+(?:-[a-z0-9]+)*)["']""", in_templates + "".join(c.read_text() for c in CODE))
    return found | (set(choices) & set((ROOT / "assets/icons.txt").read_text().split()))


def test_every_listed_icon_exists_and_is_used() -> None:
    listed = (ROOT / "assets/icons.txt").read_text().split()
    assert len(set(listed)) == len(listed), "an icon is listed twice"
    used = _icons_used()
    assert used - set(listed) == set(), "add these to assets/icons.txt"
    assert set(listed) - used == set(), "take these out of assets/icons.txt"
    sprite = (STATIC / "vendor/icons.svg").read_text()
    assert re.findall(r'<symbol id="([^"]+)"', sprite) == listed


def test_missing_build_output_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "css").mkdir()
    (tmp_path / "js").mkdir()
    monkeypatch.setattr(assets, "_folder", lambda name: tmp_path / name)
    assets._found.cache_clear()
    try:
        with pytest.raises(assets.AssetsMissing, match="make install"):
            assets._found()
    finally:
        assets._found.cache_clear()
