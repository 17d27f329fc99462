"""The pages on signing in, followed as written: passwords and links, and a real OpenID Connect provider."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.docs.pages import Program, Shell, blocks, new_machine
from tests.docs.reader import SETUP, guided
from tests.harness.server import Server
from tests.web.browser import Browser, Person
from tests.web.providers import Provider
from workhook.cli.setup import FIRST_SIGN_IN

[FIRST_START] = blocks("docs/operators/sign-in.md", "text")
ANOTHER_LINK, WAY_IN, WITHOUT_LINK, WHO = blocks("docs/operators/sign-in.md", "sh")
[SETTINGS] = blocks("docs/operators/openid-connect.md", "ini")
STORE, PEOPLE, LINK = blocks("docs/operators/openid-connect.md", "sh")
PASSWORDS = ("three words in a row", "four words in a row", "five words in a row")

# Answers each question of a command on a terminal of its own. Python asks once the terminal's echo is off.
AT_A_TERMINAL = """
import os, pty, sys
def read(terminal):
    said = os.read(terminal, 1024)
    if said.rstrip().endswith(b":"):
        os.write(terminal, sys.argv[1].encode() + b"\\n")
    return said
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[2:], read)))
"""


def link_in(said: str, server: Server) -> str:
    """Return the path of the only link in the output."""
    [path] = re.findall(rf"{re.escape(server.url)}(/login/link/\S+)", said)
    return str(path)


@pytest.mark.whole
def test_every_user_gets_a_way_to_sign_in(tmp_path: Path) -> None:
    ada = Person(0, "ada", "ada@example.org")
    with guided(tmp_path) as page:
        line, _, _ = FIRST_START.partition("http://")
        printed_or_kept = [*page.log.splitlines(), *(page.server.data / FIRST_SIGN_IN).read_text().splitlines()]
        [printed] = [each for each in printed_or_kept if each.startswith(line)]
        with Browser(page.server) as owner:
            assert owner.fill(link_in(printed, page.server)).status_code == 303
            assert owner.fill("/settings/password", password=PASSWORDS[0], again=PASSWORDS[0]).status_code == 303
        with Browser(page.server) as owner:
            assert owner.fill(link_in(page.shell.run(ANOTHER_LINK), page.server)).status_code == 303
            assert "owner" in owner.get("/").text
        given = link_in(page.shell.run(WAY_IN), page.server)
        with Browser(page.server) as browser:
            assert browser.fill(given, password=PASSWORDS[0], again=PASSWORDS[0]).status_code == 303
            asks, takes = WITHOUT_LINK.strip().splitlines()
            typed = page.shell.run(f"{sys.executable} -c '{AT_A_TERMINAL}' '{PASSWORDS[1]}' {asks}")
            assert "set the password of ada" in typed
            assert PASSWORDS[1] not in typed
            assert not browser.is_signed_in()
            assert browser.sign_in(ada, PASSWORDS[1]).status_code == 303
            page.shell.run(f'pass() {{ [ "$*" = "show workhook/ada" ] && echo "{PASSWORDS[2]}"; }}\n{takes}')
            assert browser.sign_in(ada, PASSWORDS[1]).status_code == 422
            assert browser.sign_in(ada, PASSWORDS[2]).status_code == 303
        logged = page.shell.run(WHO)
        for action in (
            "user.create",
            "user.link_create",
            "user.password_change",
            "user.sign_in",
            "user.sign_in_failed",
        ):
            assert action in logged


class ProxyInFront(httpx.HTTPTransport):
    """A proxy that terminates TLS, as far as the server and the browser can tell."""

    def __init__(self, server_url: str) -> None:
        super().__init__()
        self._server = httpx.URL(server_url)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        told = {"X-Forwarded-Proto": request.url.scheme, "X-Forwarded-Host": request.url.host}
        headers = {**request.headers, **told, "X-Forwarded-For": "198.51.100.7"}
        inside = request.url.copy_with(scheme="http", host=self._server.host, port=self._server.port)
        return super().handle_request(httpx.Request(request.method, inside, headers=headers, stream=request.stream))


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.close()


@pytest.mark.whole
def test_users_sign_in_through_their_provider(provider: Provider, tmp_path: Path) -> None:
    environment = new_machine(tmp_path) | {"WORKHOOK_DATA": str(tmp_path / "data")}
    shell = Shell(tmp_path, environment)
    try:
        shell.run(SETUP)
        shell.run(PEOPLE)
        store = STORE.replace("sudo ", "").replace("-g workhook ", "").replace("/etc/workhook/", f"{tmp_path}/")
        shell.run(f"echo hush | {store}")
        settings = SETTINGS.replace("https://id.example.com/realms/acme", provider.url)
        assert settings != SETTINGS
        configured = dict(line.split("=", 1) for line in settings.replace("/etc/workhook", str(tmp_path)).splitlines())
        server = Program(["workhook", "serve", "--port", "0"], tmp_path, environment | configured)
        try:
            address = server.wait_for("^workhook: listening on ").split()[-1]
            provider.know("ada", email="ada@example.com", email_verified=True)
            sign_in_through_provider(provider, "ada", address)
            shell.run(LINK.replace("https://id.example.com/realms/acme", provider.url))
            provider.know("5f0c2a7e", email="ada@example.com")
            sign_in_through_provider(provider, "5f0c2a7e", address)
        finally:
            server.stop()
    finally:
        shell.stop()


def sign_in_through_provider(provider: Provider, subject: str, server_url: str) -> None:
    """Sign in as a user would with a browser."""
    proxy, accept = ProxyInFront(server_url), {"Accept": "text/html"}
    with httpx.Client(base_url="https://work.example.com", transport=proxy, headers=accept, timeout=60) as browser:
        shown = browser.get("/login")
        [button] = re.findall(r'<a class="button" href="(/login/oidc[^"]*)">([^<]*)</a>', shown.text)
        assert html.unescape(button[1]) == "Sign in with your organization’s account"
        to_provider = browser.get(button[0]).headers["location"]
        back = provider.consent(to_provider, subject)
        assert back.startswith("https://work.example.com/login/oidc/callback?")
        assert browser.get(back).headers["location"] == "/"
        start = browser.get("/")
        assert start.status_code == 200
        assert "(ada)" in start.text or '<strong dir="auto">ada</strong>' in start.text
        assert all(name.startswith("__Host-") for name in browser.cookies)
