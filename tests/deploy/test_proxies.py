"""A server behind the real nginx and the real Caddy, configured with the files of `deploy/`."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from tests.deploy import proxies
from tests.docs.pages import blocks
from tests.harness.debian import program
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S
from tests.web.browser import PASSWORD, Person, add_person, forms
from workhook.asgi import described
from workhook.core.config import Settings
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.tables import sessions

ROOT = Path(__file__).parents[2]
SPOOFED = {
    "X-Forwarded-For": "203.0.113.9",
    "X-Forwarded-Host": "evil.example.com",
    "X-Forwarded-Proto": "http",
}  # sent by clients, and must be ignored


@dataclass
class Site:
    server: Server
    url: str  # of the proxy
    access_log: Path  # which only nginx writes

    def __post_init__(self) -> None:
        self.world = self.server.world()
        self.member = add_person(self.server)
        self.server.run(lambda services: _join(services, self.world.organization, self.member))

    def client(self, **headers: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=headers, verify=False, trust_env=False, timeout=WAIT_S)

    def program(self) -> httpx.Client:
        return self.client(Authorization=f"Bearer {self.world.token}")

    @contextmanager
    def signed_in(self) -> Iterator[httpx.Client]:
        with self.client(Accept="text/html", **SPOOFED) as client:
            fields = {**forms(client.get("/login"))[0].fields, "login": self.member.login, "password": PASSWORD}
            assert client.post("/login", data=fields, headers={"Origin": self.url}).status_code == 303
            yield client


async def _join(services: Services, login: str, member: Person) -> None:
    async with services.database.transaction() as tx:
        organization, user = await queries.find_account(tx, login), await queries.find_account(tx, member.login)
        assert organization is not None
        assert user is not None
        await actions.set_member(tx, organization, user, "member")


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp(request.param)
    server = Server(folder / "data", {"trust_proxy": True}).start()
    try:
        with getattr(proxies, request.param)(server.url, folder) as url:
            yield Site(server, url, folder / "access.log")
    finally:
        server.close()


@pytest.mark.whole
def test_people_can_sign_in_and_the_server_knows_their_address(site: Site) -> None:
    with site.signed_in() as client:
        assert client.get("/settings/password").status_code == 200
        assert all(cookie.secure for cookie in client.cookies.jar), "the server knows that the proxy speaks https"

    async def read(services: Services) -> list[str]:
        statement = sa.select(sessions.c.address).where(sessions.c.user_id == site.member.id)
        return [row["address"] for row in await services.database.fetch_all(statement)]

    assert set(site.server.run(read)) == {"127.0.0.1"}


@pytest.mark.whole
def test_links_start_with_the_address_of_the_proxy(site: Site) -> None:
    with site.program() as client:
        repository = client.get(site.world.repo_path, headers=SPOOFED).raise_for_status().json()
    assert repository["hooks_url"].startswith(f"{site.url}/")


@pytest.mark.whole
def test_files_may_be_as_large_as_the_server_allows(site: Site) -> None:
    path = f"/api/v1/projects/{site.world.project_id}/files"
    content = bytes(range(256)) * 4096 * 12  # 12 MiB
    with site.program() as client:
        made = client.post(path, files={"file": ("photo.raw", content)}).raise_for_status().json()
        assert client.get(f"/api/v1/files/{made['file']['id']}/content").raise_for_status().content == content
    for name in ("nginx/workhook.conf", "caddy/Caddyfile"):
        shipped = (ROOT / "deploy" / name).read_text(encoding="utf-8")
        [most] = re.findall(r"(?:client_max_body_size|max_size) (\d+)(?:m|MiB)", shipped)
        assert int(most) > Settings().upload_max_mb


def test_caddy_accepts_the_documented_block_for_several_servers(tmp_path: Path) -> None:
    [shown] = blocks("docs/operators/proxy.md", "text")
    config = tmp_path / "Caddyfile"
    config.write_text(f":8080 {{\n{shown}\n}}\n")
    found = program("caddy", "caddy")
    command = [found.path, "validate", "--adapter", "caddyfile", "--config", str(config)]
    environment = {**os.environ, **found.environment, "HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.whole
@pytest.mark.parametrize("is_live_page", [False, True], ids=["stream", "live"])
def test_streamed_events_arrive_immediately(site: Site, is_live_page: bool) -> None:
    """The stream stays open, so whatever a proxy buffers would never arrive."""
    project = f"/api/v1/projects/{site.world.project_id}"
    path = f"/{site.world.full_name}/live" if is_live_page else f"{project}/stream"
    with (
        site.signed_in() if is_live_page else site.program() as client,
        site.program() as other,
        client.stream("GET", path, headers={"Accept": "text/event-stream", "Accept-Encoding": "gzip"}) as stream,
    ):
        assert stream.status_code == 200
        assert "content-encoding" not in stream.headers
        lines = stream.iter_lines()
        assert any(line.startswith("id:") for line in lines)  # the stream is open
        for title in ("First", "Second"):
            other.patch(project, json={"title": title}).raise_for_status()
            assert any(line.startswith("event:") for line in lines)


SECRET = "s3cret" * 8
SECRET_PATHS = (
    "/login/link/",
    "/invitations/links/",
    "/calendar/",
    "/mail/unsubscribe/",
    "/settings/notifications/confirm/",
    "/receive/",
)  # of secrets, which follow them


def test_the_access_log_contains_no_secrets(site: Site) -> None:
    paths = [*SECRET_PATHS, "/login/oidc/callback?code="]
    with site.client() as client:
        for each in paths:
            client.get(f"{each}{SECRET}")
    if not site.access_log.exists():
        assert "caddy" in site.access_log.parent.name
        return
    logged = site.access_log.read_text()
    assert SECRET not in logged
    assert all(f'"GET {each}-"' in logged for each in SECRET_PATHS)
    assert '"GET /login/oidc/callback"' in logged


def test_every_path_with_a_secret_is_known() -> None:
    secrets = {each.path.partition("{")[0] for each in described() if re.search(r"\{(token|key)\}", each.path)}
    assert secrets == set(SECRET_PATHS)


@pytest.mark.whole
def test_browsers_keep_using_https(site: Site) -> None:
    with site.client() as client:
        assert client.get("/healthz").headers["strict-transport-security"] == "max-age=31536000"


@pytest.mark.whole
def test_metrics_are_not_public(site: Site) -> None:
    with site.client() as client:
        assert client.get("/metrics").status_code == 403
        assert client.get("/healthz").status_code == 200


def test_the_documented_proxy_configuration_matches_the_file() -> None:
    page = (ROOT / "docs" / "operators" / "proxy.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```nginx\n(.*?)```", page, re.DOTALL)
    shipped = (ROOT / "deploy" / "nginx" / "workhook.conf").read_text(encoding="utf-8")
    lines = [line.partition("#")[0].strip() for line in block.splitlines()]
    assert [each for each in lines if each not in shipped and not each.startswith("proxy_pass")] == []


def test_the_read_timeout_exceeds_the_silence_of_a_stream() -> None:
    """The server sends a keep-alive comment every 15 s."""
    shipped = (ROOT / "deploy" / "nginx" / "workhook.conf").read_text(encoding="utf-8")
    assert all(int(each) > 2 * 15 for each in re.findall(r"proxy_read_timeout (\d+)s", shipped))
