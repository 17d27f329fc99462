"""No secret appears in a log, an error, a metric, a record, a response, the audit log or the database.

`_GIVERS` create every kind of secret and use it correctly; `_wrong_places` are where clients put secrets by mistake;
`_BROKEN` are tables without which the server fails while it handles one. Everything the server has output and stored is
then searched for each secret, including base64, hexadecimal and escaped forms. New features must be added here.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

import httpx
import pytest
import sqlalchemy as sa

from tests.api.oauth_kit import DEVICE_GRANT, TOKEN_PATH, Site, new_pkce
from tests.api.wire import Api, Place
from tests.harness import forge
from tests.harness.apps import make_app, user_token
from tests.harness.databases import Databases
from tests.harness.receiver import Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import add_user
from tests.web.browser import PASSWORD, Browser, Person, add_link, add_person
from workhook.core.vault import KEY_FILE
from workhook.events.payloads import from_stored
from workhook.events.tables import events
from workhook.http.calls import Services
from workhook.storage.metadata import metadata

_PLAIN_MIN = 12  # characters; shorter secrets would be found by chance


@dataclass
class Told:
    """A response of the server and the request it answered."""

    method: str
    url: str
    status: int
    headers: str
    body: bytes
    sent: bytes  # the URL, the headers and the body


@dataclass
class Witness:
    """Everything that can be searched, and every secret by name."""

    site: Site
    receiver: Receiver
    secrets: dict[str, str] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)

    @property
    def server(self) -> Server:
        return self.site.server

    def watch(self, client: httpx.Client) -> httpx.Client:
        def note(response: httpx.Response) -> None:
            response.read()
            request = response.request
            headers = "\n".join(
                f"{name}: {text}" for name, text in response.headers.items() if name not in ("set-cookie", "location")
            )
            words = [unquote(unquote(str(request.url))), *request.headers.values()]
            sent = "\n".join(words).encode() + b"\n" + request.content
            told = Told(request.method, str(request.url), response.status_code, headers, response.content, sent)
            self.told.append(told)

        client.event_hooks = {"response": [note]}
        return client

    def client(self, token: str | None = None) -> httpx.Client:
        return self.watch(self.server.client(token))

    def keep(self, **found: str) -> None:
        for name, secret in found.items():
            assert len(secret) >= _PLAIN_MIN, name
            self.secrets[name] = secret


# --- secrets, each created and used correctly ------------------------------------------------------------------------


def _personal_tokens(witness: Witness) -> None:
    with witness.client(witness.site.octo_token) as client:
        world = witness.site.world
        fine = {"kind": "fine_grained", "organization": world.organization, "permissions": {"work": "read"}}
        for name, body in (("classic", {"scopes": ["repo", "work"]}), ("fine-grained", fine)):
            made = client.post("/user/tokens", json=body, headers={"Idempotency-Key": f"again-{name}"})
            assert made.status_code == 201, made.text
            witness.keep(**{name: made.json()["token"]})
            with witness.client(witness.secrets[name]) as other:
                assert other.get("/api/v1/projects").status_code == 200
        assert client.get("/user/tokens").status_code == 200
    witness.keep(owner=witness.site.octo_token)


def _of_oauth(witness: Witness) -> None:
    site = witness.site
    for name, client in (("oauth", site.oauth), ("app", site.app)):
        verifier, challenge = new_pkce()
        asked = {"scope": "repo"} if name == "oauth" else {}
        code = site.octo.code(client, **challenge, **asked)
        answer = site.token(client, code=code, code_verifier=verifier)
        witness.keep(
            **{
                f"code of {name}": code,
                f"verifier of {name}": verifier,
                f"token of {name}": answer["access_token"],
                f"client secret of {name}": client.secret,
            }
        )
        site.token(client, code=code, code_verifier=verifier)  # a replay, which revokes everything issued for the code
        with witness.client(answer["access_token"]) as user:
            user.get("/user")
        begun = site.http.post(
            "/login/device/code", data={"client_id": client.id}, headers={"Accept": "application/json"}
        )
        device_code = begun.json()["device_code"]
        site.token(client, grant_type=DEVICE_GRANT, device_code=device_code)
        witness.keep(**{f"device code of {name}": device_code})
        if "refresh_token" in answer:
            fresh = site.token(client, code=site.octo.code(client, **challenge), code_verifier=verifier)
            renewed = site.token(client, grant_type="refresh_token", refresh_token=fresh["refresh_token"])
            site.token(client, grant_type="refresh_token", refresh_token=fresh["refresh_token"])  # looks like theft
            witness.keep(
                **{
                    f"refresh token of {name}": fresh["refresh_token"],
                    f"renewed refresh token of {name}": renewed["refresh_token"],
                    f"renewed token of {name}": renewed["access_token"],
                }
            )
        basic = httpx.BasicAuth(client.id, client.secret)
        path = f"/applications/{client.id}/token"
        site.http.post(path, json={"access_token": answer["access_token"]}, auth=basic)
        site.http.post(path, json={"access_token": witness.secrets["owner"]}, auth=basic)


def _of_apps(witness: Witness) -> None:
    app = make_app(witness.server, witness.site.world, own_key=True)
    jwt, expired = app.jwt(), app.jwt(exp=1)
    for each in (jwt, expired):
        with witness.client(each) as client:
            client.get("/app")
            client.get("/user")
    with witness.client(jwt) as client:
        issued = client.post(f"/app/installations/{app.installation_id}/access_tokens").json()["token"]
    with witness.client(issued) as client:
        assert client.get("/installation/repositories").status_code == 200
    lines = app.private_key.splitlines()
    witness.keep(
        installation=issued,
        jwt=jwt,
        expired_jwt=expired,
        app_secret=app.secret,
        private_key=lines[len(lines) // 2],
        app_user=user_token(witness.server, app, witness.site.world.owner),
    )
    with witness.client(witness.secrets["app_user"]) as client:
        assert client.get("/user").status_code == 200
    _of_management(witness)


def _of_management(witness: Witness) -> None:
    """Create secrets that owners are shown once."""
    with witness.client(witness.site.octo_token) as client:
        at = f"{witness.site.world.org_path}/oauth-apps"
        body = {"name": f"Shown once {secrets.token_hex(4)}", "callback_urls": ["https://client.example/"]}
        made = client.post(at, json=body).json()
        again = client.post(f"{at}/{made['client_id']}/secrets").json()
        witness.keep(shown_secret=made["client_secret"], second_secret=again["client_secret"])
        apps = f"{witness.site.world.org_path}/apps"
        app = client.post(apps, json={"name": f"Signs {secrets.token_hex(4)}", "permissions": {"work": "read"}}).json()
        key = client.post(f"{apps}/{app['slug']}/keys").json()
        for name, pem in (("shown_key", app["pem"]), ("second_key", key["pem"])):
            lines = pem.splitlines()
            witness.keep(**{name: lines[len(lines) // 2]})
        for path in (at, apps, f"{at}/{made['client_id']}", f"{apps}/{app['slug']}/keys"):
            assert client.get(path).status_code == 200


def _of_people(witness: Witness) -> None:
    person = add_person(witness.server)
    wrong = "a horse, a battery and a stapler"
    with Browser(witness.server) as browser:
        witness.watch(browser.client)
        browser.sign_in(person, wrong)
        browser.fill("/login", login=PASSWORD, password=person.login)  # the password entered in the wrong field
        browser.sign_in(person)
        assert browser.cookie
        witness.keep(password=PASSWORD, wrong_password=wrong, session=browser.cookie)
        changed = "another horse, another battery"
        browser.fill("/settings/password", **_filled(browser, "/settings/password", PASSWORD, changed))
        witness.keep(new_password=changed)
        if browser.cookie != witness.secrets["session"] and browser.cookie:
            witness.keep(new_session=browser.cookie)
    _of_links(witness, person)


def _filled(browser: Browser, path: str, old: str, new: str) -> dict[str, str]:
    """Return the values of a form for a new password, whatever its fields are called."""
    names = [name for name in browser.form(path).fields if "password" in name or "again" in name or "repeat" in name]
    return {name: old if "current" in name or "old" in name else new for name in names}


def _of_links(witness: Witness, person: Person) -> None:
    link = add_link(witness.server, person)
    with Browser(witness.server) as browser:
        witness.watch(browser.client)
        browser.fill(link)
        browser.get(link)  # a used link
        witness.keep(link=link.rpartition("/")[2])
        if browser.cookie:
            witness.keep(session_of_link=browser.cookie)
        witness.watch(browser.client)
        browser.get("/login/oidc")  # an unreachable provider


def _of_webhooks(witness: Witness) -> None:
    site = witness.site
    given = {
        "hook_secret": f"hook-secret-{secrets.token_hex(8)}",
        "next_secret": f"next-secret-{secrets.token_hex(8)}",
        "standard_secret": "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode(),
        "basic_password": f"p:ss w/rd+{secrets.token_hex(8)}",
    }
    witness.keep(**given)
    # Also as it is sent: the header must not be recorded.
    witness.keep(basic=base64.b64encode(f"user:{given['basic_password']}".encode()).decode())
    with witness.client(site.octo_token) as client:
        api = Api(client)
        for kind in ("repository", "organization"):
            place = Place(kind, site.world)
            config = {"url": f"{witness.receiver.url}?{kind}", "secret": given["hook_secret"], "retries": "0"}
            login = {"username": "user", "password": given["basic_password"]}
            hook = api.hook(place, config={**config, **login}, active=True)
            change = {"secret": given["next_secret"], "previous_secret_expires_in": 3600}
            assert api.patch(f"{hook['url']}/config", json=change).status_code == 200
            standard = {**config, "url": f"{witness.receiver.url}?standard", "header_style": "standard"}
            other = api.hook(
                place, config={**standard, "secret": given["standard_secret"]}, events=["fork"], active=True
            )
            # Refused while handling the secret: a duplicate, and an invalid URL.
            api.create(place, config={**config, **login}, events=hook["events"])
            api.create(place, config={"url": "nonsense", "secret": given["hook_secret"]})
            api.post(f"{place.path}/events", json={"event": "push", "payload": {}})
            for each in (hook, other):
                for delivery in until(partial(api.read, each["deliveries_url"])):
                    api.read(f"{each['deliveries_url']}/{delivery['id']}")
            api.read(place.hooks)
            api.read(f"{hook['url']}/config")


_GIVERS: tuple[Callable[[Witness], None], ...] = (
    _personal_tokens,
    _of_oauth,
    _of_apps,
    _of_people,
    _of_webhooks,
)


# --- secrets in the wrong places -------------------------------------------------------------------------------------


def _wrong_places(witness: Witness, secret: str, member: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield requests that fail.

    `member` is the token of a user with few permissions, whose attempts are recorded within the limit per caller.
    """
    world, path = witness.site.world, quote(secret, safe="")
    for name in ("token", "access_token", "client_secret", "password", "code"):
        yield "GET", f"{world.org_path}/hooks", {"params": {name: secret}, "anonymous": True}
    yield "GET", "/login/oauth/authorize", {"params": {"client_id": secret}}
    yield "GET", "/login", {"params": {"return_to": f"/{path}"}}
    yield "GET", f"/{path}", {}
    yield "GET", f"/orgs/{path}", {}
    yield "GET", f"/repos/{world.organization}/{path}/hooks", {}
    yield "GET", f"{world.repo_path}/hooks/{path}", {}
    yield "DELETE", f"{world.org_path}/oauth-apps/{path}", {}
    yield "GET", f"{world.org_path}/oauth-apps/{path}", {"anonymous": True}
    weak = {"Authorization": f"Bearer {member}"}
    yield "GET", f"{world.org_path}/oauth-apps/{path}", {"headers": weak}
    yield "DELETE", f"{world.org_path}/apps/{path}/secrets/1", {"headers": weak}
    yield "POST", f"{world.repo_path}/hooks/{path}/tests", {"headers": weak}
    yield "GET", f"/api/v1/tasks/{path}", {}
    yield "GET", f"/login/link/{path}", {}
    yield "POST", f"{world.repo_path}/hooks", {"json": {"name": secret}}
    yield "POST", f"{world.repo_path}/hooks", {"json": {"config": {"secret": [secret]}}}
    yield "POST", f"{world.repo_path}/hooks", {"json": {"config": {"url": "x", "secret": {"value": secret}}}}
    yield "POST", f"{world.repo_path}/hooks", {"content": b'{"config": {"secret": "' + secret.encode() + b'"'}
    yield "POST", "/user/tokens", {"json": {"token": secret, "kind": "none"}}
    yield "POST", "/api/v1/projects", {"json": {"token": secret}}
    yield "POST", TOKEN_PATH, {"data": {"client_id": "none", "client_secret": secret, "code": secret}}
    yield "POST", TOKEN_PATH, {"data": {"grant_type": secret, "client_id": secret}}
    yield "POST", "/login", {"data": {"login": secret, "password": secret}}
    for header in (
        "User-Agent",
        "X-GitHub-Api-Version",
        "X-Request-Id",
        "Accept",
        "Referer",
        "Origin",
        "If-None-Match",
    ):
        yield "GET", f"{world.org_path}/hooks", {"headers": {header: secret}}
    yield "GET", "/user", {"headers": {"Authorization": secret}}
    yield "GET", "/user", {"headers": {"Authorization": f"Bearer {secret}x"}}
    yield "GET", "/user", {"headers": {"Authorization": f"Basic {base64.b64encode(secret.encode()).decode()}"}}
    yield "GET", "/settings/password", {"headers": {"Cookie": f"workhook_session={path}"}}


# Tables without which requests that handle a secret fail.
_BROKEN = (
    "hooks",
    "tokens",
    "app_secrets",
    "authorization_codes",
    "refresh_tokens",
    "sessions",
    "passwords",
    "accounts",
)


def _failing_requests(witness: Witness) -> Iterator[tuple[str, str, dict[str, Any]]]:
    world, known = witness.site.world, witness.secrets
    bearer = [known[name] for name in ("classic", "installation", "jwt", "token of oauth")]
    config = {"url": witness.receiver.url, "secret": known["hook_secret"], "password": known["basic_password"]}
    for token in bearer:
        yield "GET", f"{world.org_path}/hooks", {"headers": {"Authorization": f"Bearer {token}"}}
    yield "POST", f"{world.repo_path}/hooks", {"json": {"config": config}}
    client = witness.site.oauth.credentials
    yield "POST", TOKEN_PATH, {"data": {**client, "code": known["code of oauth"]}}
    refresh = {**witness.site.app.credentials, "grant_type": "refresh_token"}
    yield "POST", TOKEN_PATH, {"data": {**refresh, "refresh_token": known["refresh token of app"]}}
    yield "GET", "/settings/password", {"headers": {"Cookie": f"workhook_session={known['session']}"}}
    yield "GET", f"/login/link/{known['link']}", {}
    yield "POST", "/user/tokens", {"json": {"scopes": ["repo"]}}


def _ask(witness: Witness, asked: Iterator[tuple[str, str, dict[str, Any]]]) -> list[int]:
    """Send the requests and return their statuses."""
    found = []
    with witness.client(witness.site.octo_token) as known, witness.client() as unknown:
        for method, path, more in asked:
            client = unknown if more.pop("anonymous", False) or path.startswith("/login") else known
            found.append(client.request(method, path, **more).status_code)
    return found


@contextmanager
def _table_renamed(server: Server, table: str) -> Iterator[None]:
    def renamed(old: str, new: str) -> Callable[[Services], Any]:
        async def rename(services: Services) -> None:
            async with services.database.transaction() as tx:
                await tx.execute(sa.text(f"ALTER TABLE {old} RENAME TO {new}"))

        return rename

    server.run(renamed(table, "away"))
    try:
        yield
    finally:
        server.run(renamed("away", table))


# --- the search ------------------------------------------------------------------------------------------------------


def forms(secret: str) -> Iterator[bytes]:
    """Yield the forms in which a secret may appear: plain, escaped, hexadecimal, and base64 at any offset."""
    data = secret.encode()
    texts = {
        secret,
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        data.hex(),
        data.hex().upper(),
    }
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + data).decode().rstrip("=")
        inner = encoded[4 if shift else 0 : -2]  # without the characters that depend on neighboring bytes
        texts |= {inner, inner.replace("+", "-").replace("/", "_")}
    yield from (each.encode() for each in texts)


def found_in(haystack: bytes, known: dict[str, str]) -> set[str]:
    return {name for name, secret in known.items() if any(each in haystack for each in forms(secret))}


def _stored(server: Server) -> bytes:
    """Return every row of every table and, on SQLite, every byte of the data folder except the key.

    Both are needed because the files store long payloads compressed and not necessarily contiguously.
    """

    async def dump(services: Services) -> bytes:
        found = []
        for table in metadata.sorted_tables:
            for row in await services.database.fetch_all(sa.select(table)):
                values = [row[index] for index in range(len(row))]
                if table is events:
                    values.append(from_stored(row["payload"]) or b"")
                found += [value if isinstance(value, bytes) else str(value).encode() for value in values]
        return b"\n".join(found)

    rows: bytes = server.run(dump)
    files = [each for each in server.data.rglob("*") if each.is_file() and each.name != KEY_FILE]
    return b"\n".join([rows, *(each.read_bytes() for each in files)])


def test_a_secret_is_found_in_every_form() -> None:
    """Otherwise a broken search would go unnoticed."""
    secret = 's3cret/with+strange"things&more'
    for text in (
        secret,
        f"?token={quote_plus(secret)}&",
        json.dumps({"a": secret}),
        base64.b64encode(f"user:{secret}".encode()).decode(),
        base64.urlsafe_b64encode(f"us:{secret}!".encode()).decode(),
        base64.b64encode(f"u:{secret}!!".encode()).decode(),
        secret.encode().hex(),
        repr(secret),
    ):
        assert found_in(text.encode(), {"it": secret}) == {"it"}, text
    assert found_in(b"something else", {"it": secret}) == set()


@pytest.fixture(scope="module")
def settings(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return settings with a secret in every one that accepts one."""
    folder = tmp_path_factory.mktemp("server")
    given = {
        **backend.new(folder),
        "data": str(folder),
        "log_level": "debug",
        "secret_key": f"secret-key-{secrets.token_hex(16)}",
        "oidc_issuer": "http://127.0.0.1:9",
        "oidc_client_id": "workhook",
        "oidc_client_secret": f"oidc-secret-{secrets.token_hex(12)}",
    }
    if "database_url" in given:  # it trusts every connection, so any password works
        password = f"database-password-{secrets.token_hex(8)}"
        given["database_url"] = given["database_url"].replace("postgres:@", f"postgres:{password}@")
        assert password in given["database_url"]
    return given


async def _members(services: Services, *, site: Site, count: int) -> list[str]:
    return [await add_user(services, site.world, member="member") for _ in range(count)]


@pytest.fixture(scope="module")
def witness(settings: dict[str, str]) -> Iterator[Witness]:
    server = Server(Path(settings["data"]), settings).start()
    receiver = Receiver()
    receiver.reply = lambda received: Reply(500 if "organization" in received.path else 200)
    site = Site(server)
    witness = Witness(site, receiver)
    for each in (site.http, site.octo.http, site.ada.http):
        witness.watch(each)
    witness.keep(secret_key=settings["secret_key"], oidc_secret=settings["oidc_client_secret"])
    if "database_url" in settings:
        witness.keep(database_password=urlsplit(settings["database_url"]).password or "")
    for give in _GIVERS:
        give(witness)
    last_member, *members = server.run(partial(_members, site=site, count=len(witness.secrets) + 1))
    given = zip(list(witness.secrets.values()), members, strict=True)
    misplaced = [_ask(witness, _wrong_places(witness, secret, member)) for secret, member in given]
    assert {status for each in misplaced for status in each} >= {400, 401, 404, 422}
    for table in _BROKEN:
        with _table_renamed(server, table):
            assert any(status >= 500 for status in _ask(witness, _failing_requests(witness))), table
    with witness.client(site.octo_token) as client:
        client.get("/metrics")
        last = f"{site.world.org_path}/installations/4711"
        assert client.get(last, headers={"Authorization": f"Bearer {last_member}"}).status_code == 403
        # Refusals are written in order and a little later: once the last one exists, all do.
        until(lambda: last in client.get(f"{site.world.org_path}/audit-log?include=all").text)
    yield witness
    site.close()
    server.close()
    receiver.close()


def test_the_output_contains_no_secret(witness: Witness) -> None:
    log = witness.server.log()
    assert "Traceback" in log, "the failures were logged"
    assert found_in(log.encode(), witness.secrets) == set()


def test_only_the_creating_response_contains_a_secret(witness: Witness) -> None:
    """This covers errors, lists and single objects.

    A response may repeat a secret that the request put in a wrong field.
    """
    leaks = set()
    for each in witness.told:
        if each.status >= 400 or each.method == "GET":
            found = found_in(each.headers.encode() + b"\n" + each.body, witness.secrets)
            leaks |= {
                (name, each.method, urlsplit(each.url).path, each.status)
                for name in found - (found_in(each.sent, witness.secrets) if found else set())
            }
    assert leaks == set()
    echoed = [each for each in witness.told if each.status >= 500]
    assert echoed
    assert not any(found_in(each.body, witness.secrets) for each in echoed)


def test_responses_with_secrets_are_not_cached(witness: Witness) -> None:
    """This includes responses to POST, which caches must not store either."""
    holding = [each for each in witness.told if each.status < 400 and found_in(each.body, witness.secrets)]
    kept = {f"{each.method} {urlsplit(each.url).path}" for each in holding if "no-store" not in each.headers}
    assert len(holding) > 10
    assert kept == set()


def test_the_database_and_the_data_folder_contain_no_secret(witness: Witness) -> None:
    stored = _stored(witness.server)
    assert witness.site.world.organization.encode() in stored, "it was read"
    assert b"hook.create" in stored
    assert found_in(stored, witness.secrets) == set()


def test_commands_print_no_secret(witness: Witness, settings: dict[str, str]) -> None:
    said = b""
    unreachable = "postgresql://someone:database-password-elsewhere@127.0.0.1:1/none"
    for words in (["token", "list"], ["doctor", "--json"], ["doctor", "--database-url", unreachable]):
        done = forge.run(words, witness.server.environment())
        said += (done.stdout + done.stderr).encode()
    assert b"127.0.0.1:1" in said
    assert found_in(said, {**witness.secrets, "elsewhere": "database-password-elsewhere"}) == set()


def test_a_backup_without_the_key_contains_no_readable_secret(backend: Databases, tmp_path: Path) -> None:
    """Also, delivery records mention an unreachable proxy without its password."""
    secret, password = f"hook-secret-{secrets.token_hex(8)}", f"proxy-password-{secrets.token_hex(8)}"
    proxy = {"delivery_proxy": f"http://someone:{password}@127.0.0.1:9", "log_level": "debug"}
    server = Server(tmp_path, {**backend.new(tmp_path), **proxy}).start()
    try:
        world = server.world()
        with server.client(world.token) as client:
            api = Api(client)
            config = {"secret": secret, "password": secret, "retries": "0"}
            hook = api.hook(Place("repository", world), config=config, active=True)
            [delivery] = until(lambda: api.read(hook["deliveries_url"]))
            told = api.get(f"{hook['deliveries_url']}/{delivery['id']}").content
        assert delivery["status_code"] == 502
        key = (tmp_path / KEY_FILE).read_text().split()[0]
        known = {"secret": secret, "key": key, "token": world.token, "proxy": password}
        assert found_in(_stored(server) + told, known) == set()
        assert server.stop() == 0
        assert found_in(server.log().encode(), known) == set()
        (tmp_path / KEY_FILE).unlink()
        done = forge.run(["serve", "--port", "0"], server.environment())
    finally:
        server.close()
    assert done.returncode == 1
    assert KEY_FILE in done.stderr
    assert "is missing, but this database was used with that key" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / KEY_FILE).exists(), "no other key is made in its place"
