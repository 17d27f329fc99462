"""Apps of an organization: registration, keys, access control, and the equivalent commands."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.api.app_kit import CALLBACK, fault, installation_token, new_name, signed, user_token
from tests.api.wire import Api, Place, invalid, refused
from tests.harness.apps import make_app
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World, add_token, add_user
from workhook.http.calls import Services
from workhook.identity.apps import manage_api
from workhook.identity.policy import SCOPES
from workhook.identity.queries import find_account
from workhook.identity.tables import audit_log
from workhook.identity.tokens.issue import APP_USER, FINE_GRAINED, OAUTH, issue

KEYS = {
    "id", "client_id", "slug", "name", "description", "homepage_url", "callback_urls", "device_flow", "owner", "url",
    "created_at", "updated_at", "secrets", "public", "permissions", "bot_id", "bot_login", "keys",
}  # fmt: skip
# Endpoints for single repositories of an installation are tested in `test_user_installations`.
MANAGED = [
    each
    for each in (*manage_api.oauth_apps, *manage_api.apps, *manage_api.installations)
    if each.access and each.path.startswith("/orgs/")
]


def made(api: Api, world: World, **body: Any) -> dict[str, Any]:
    response = api.post(f"{world.org_path}/apps", json={"name": new_name(), **body})
    assert response.status_code == 201, response.text
    created: dict[str, Any] = response.json()
    return created


def path(world: World, app: dict[str, Any]) -> str:
    return f"{world.org_path}/apps/{app['slug']}"


def public_half(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def private_half(key: rsa.RSAPrivateKey) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def fingerprint(pem: str) -> str:
    """Return the fingerprint of the key as OpenSSL prints it."""
    key = serialization.load_pem_public_key(pem.encode())
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return "SHA256:" + base64.b64encode(hashlib.sha256(der).digest()).decode()


def status_of(server: Server, jwt: str) -> int:
    with server.client(jwt) as client:
        return client.get("/app").status_code


def test_an_app_authenticates_with_the_key_that_is_shown_once(server: Server, world: World, api: Api) -> None:
    response = api.post(f"{world.org_path}/apps", json={"name": new_name(), "permissions": {"work": "write"}})
    app = response.json()
    assert response.status_code == 201
    assert set(app) == KEYS | {"client_secret", "pem"}
    assert response.headers["location"] == app["url"] == f"{server.url}{path(world, app)}"
    assert re.fullmatch(r"Iv23li[A-Za-z0-9]{14}", app["client_id"])
    assert app["bot_login"] == f"{app['slug']}[bot]"
    assert (app["public"], app["permissions"], app["callback_urls"]) == (False, {"work": "write"}, [])
    (key,) = app["keys"]
    assert set(key) == {"id", "fingerprint", "public_key", "created_at"}
    assert key["fingerprint"] == fingerprint(key["public_key"])
    loaded = serialization.load_pem_private_key(app["pem"].encode(), None)
    assert isinstance(loaded, rsa.RSAPrivateKey)
    assert (loaded.key_size, public_half(loaded)) == (2048, key["public_key"])

    shown = api.read(path(world, app))
    assert shown == {name: value for name, value in app.items() if name not in ("client_secret", "pem")}
    assert [each["slug"] for each in api.read(f"{world.org_path}/apps")] == [app["slug"]]
    assert api.read(f"{world.org_path}/oauth-apps") == []
    with server.client(signed(app["client_id"], app["pem"])) as itself:
        assert itself.get("/app").json()["slug"] == app["slug"]


def test_keys_can_be_rotated_without_downtime(server: Server, world: World, api: Api) -> None:
    app = made(api, world)
    keys, first = f"{path(world, app)}/keys", app["keys"][0]
    message = "this is the app's last key: add another one first"
    invalid(api.delete(f"{keys}/{first['id']}"), fault("App", "keys", "custom", message))
    answer = api.post(keys)
    second = answer.json()
    assert answer.status_code == 201
    assert api.read(answer.headers["location"]) == {name: second[name] for name in second if name != "pem"}
    assert set(second) == {"id", "fingerprint", "public_key", "created_at", "pem"}
    jwts = [signed(app["client_id"], pem) for pem in (app["pem"], second["pem"])]
    assert [status_of(server, each) for each in jwts] == [200, 200]
    assert api.delete(f"{keys}/{first['id']}").status_code == 204
    assert [status_of(server, each) for each in jwts] == [401, 200]
    assert [each["id"] for each in api.read(keys)] == [second["id"]]
    assert "pem" not in api.read(keys)[0]
    refused(api.delete(f"{keys}/{first['id']}"), 404, "Not Found")


def test_an_app_can_register_its_own_public_key(server: Server, world: World, api: Api) -> None:
    own = rsa.generate_private_key(65537, 2048)
    app = made(api, world, public_key=public_half(own))
    assert "pem" not in app
    assert status_of(server, signed(app["client_id"], private_half(own))) == 200
    keys = f"{path(world, app)}/keys"
    known = fault("App", "public_key", "already_exists", "the app already has this key")
    invalid(api.post(keys, json={"public_key": public_half(own)}), known)
    wanted = "public_key must be the PEM of an RSA public key of 2048 to 8192 bits"
    small, curve = rsa.generate_private_key(65537, 1024), ec.generate_private_key(ec.SECP256R1())
    for pem in (public_half(small), public_half(curve), "", "x"):
        invalid(api.post(keys, json={"public_key": pem}), fault("App", "public_key", "custom", wanted))
    secret = "public_key must be only the public key; keep the private key to yourself"
    answer = api.post(keys, json={"public_key": private_half(own)})
    invalid(answer, fault("App", "public_key", "custom", secret))
    assert private_half(own).splitlines()[1] not in answer.text + server.log()


def test_all_errors_are_reported_together(world: World, api: Api) -> None:
    answer = api.post(
        f"{world.org_path}/apps",
        json={"name": "a" * 30 + " ß", "permissions": {"issues": "write"}, "callback_urls": ["http://a"]},
    )
    begins = "begin with https:// (http:// only for 127.0.0.1, [::1], and localhost)"
    known = "unknown permission issues; known permissions: repository_hooks, organization_hooks, work"
    invalid(
        answer,
        fault("App", "callback_urls", "custom", f"callback_urls: http://a must {begins}"),
        fault("App", "permissions", "custom", known),
    )
    wrong = api.post(f"{world.org_path}/apps", json={"permissions": {"work": "admin"}, "public": 1, "bot_id": 1})
    assert {(each["resource"], each["field"], each["code"]) for each in wrong.json()["errors"]} == {
        ("App", "name", "missing"),
        ("App", "permissions", "invalid"),
        ("App", "public", "invalid"),
        ("App", "bot_id", "unknown"),
    }


def test_concurrent_registrations_with_one_name_create_one_app(server: Server, world: World) -> None:
    key, name = public_half(rsa.generate_private_key(65537, 2048)), new_name()

    def create(_: int) -> httpx.Response:
        with server.client(world.token) as client:
            return client.post(f"{world.org_path}/apps", json={"name": name, "public_key": key})

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(create, range(4)))
    assert sorted(each.status_code for each in answers) == [201, 422, 422, 422]
    slug = name.lower().replace(" ", "-")
    taken = fault("App", "name", "already_exists", f"an app named {slug} already exists")
    invalid(next(each for each in answers if each.status_code == 422), taken)


def test_a_private_app_is_hidden_from_strangers(server: Server, world: World, api: Api) -> None:
    app = made(api, world, permissions={"work": "read"}, homepage_url="https://example.com/app")
    stranger = server.run(lambda services: add_user(services, world))
    member = server.run(lambda services: add_user(services, world, member="member"))

    def seen(token: str | None) -> int:
        with server.client(token) as client:
            return client.get(f"/apps/{app['slug']}").status_code

    itself = signed(app["client_id"], app["pem"])
    assert [seen(each) for each in (None, stranger, member, itself)] == [404, 404, 200, 200]
    api.patch(path(world, app), json={"public": True})
    assert [seen(each) for each in (None, stranger, member, itself)] == [200, 200, 200, 200]
    with server.client(None) as client:
        facts = client.get(f"/apps/{app['slug']}").json()
        assert (facts["id"], facts["external_url"]) == (app["id"], "https://example.com/app")
        assert (facts["owner"]["login"], facts["permissions"]) == (world.organization, {"work": "read"})
        assert not {"client_secret", "secrets", "keys", "callback_urls"} & set(facts)
        oauth = api.post(f"{world.org_path}/oauth-apps", json={"name": new_name(), "callback_urls": [CALLBACK]}).json()
        assert client.get(f"/apps/{oauth['slug']}").status_code == 404


def test_renaming_an_app_changes_its_slug_and_its_bots_login(server: Server, world: World, api: Api) -> None:
    app = made(api, world)
    name = new_name("Renamed")
    changed = api.patch(path(world, app), json={"name": name}).json()
    assert (changed["slug"], changed["bot_id"]) == (name.lower().replace(" ", "-"), app["bot_id"])
    refused(api.get(path(world, app)), 404, "Not Found")
    assert server.run(lambda services: _login(services, changed["bot_login"])) == app["bot_id"]
    assert api.delete(path(world, changed)).status_code == 204
    assert status_of(server, signed(app["client_id"], app["pem"])) == 401
    assert server.run(lambda services: _login(services, changed["bot_login"])) is None
    again = made(api, world, name=name)
    assert again["bot_login"] == changed["bot_login"]
    assert again["bot_id"] != app["bot_id"]  # the new app does not inherit what the old bot did


@pytest.fixture(scope="module")
def callers(server: Server) -> tuple[World, dict[str, Any], dict[str, str]]:
    """Return a world with an app, an OAuth app and an installation, and tokens of callers who may not manage them."""
    world = server.world()
    with server.client(world.token) as client:
        api = Api(client)
        app = made(api, world, permissions={"work": "write"})
        oauth = api.post(f"{world.org_path}/oauth-apps", json={"name": new_name(), "callback_urls": [CALLBACK]}).json()
        installed = api.post(f"{world.org_path}/installations", json={"app": app["slug"]}).json()
    ids = {
        "org": world.organization, "slug": app["slug"], "client_id": oauth["client_id"], "key_id": app["keys"][0]["id"],
        "installation_id": installed["id"],
    }  # fmt: skip
    everything = [each for each in SCOPES if each != "admin:org"]
    tokens = {
        "member": server.run(lambda services: add_user(services, world, member="member")),
        "stranger": server.run(lambda services: add_user(services, world)),
        "owner of another organization": server.world().token,
        "owner without the scope": server.run(lambda services: add_token(services, world, everything, member="owner")),
        "OAuth app": user_token(server, oauth["client_id"], world.owner, OAUTH, scopes=SCOPES),
        "user of the app": user_token(server, app["client_id"], world.owner, APP_USER),
        "installation": installation_token(server, installed["id"]),
        "fine-grained": server.run(lambda services: _fine_grained(services, world)),
        "the app itself": signed(app["client_id"], app["pem"]),
        "nobody": "",
    }
    return world, ids, tokens


REFUSALS = {
    "member": (403, "You must be an organization owner."),
    "stranger": (404, "Not Found"),
    "owner of another organization": (404, "Not Found"),
    "owner without the scope": (403, "The token needs the scope admin:org."),
    "OAuth app": (403, "This operation does not accept OAuth app tokens."),
    "user of the app": (403, "Resource not accessible by integration"),
    "installation": (403, "Resource not accessible by integration"),
    "fine-grained": (403, "Resource not accessible by personal access token"),
    "the app itself": (401, None),
    "nobody": (401, "Requires authentication"),
}


@pytest.mark.parametrize("caller", REFUSALS)
def test_only_organization_owners_manage_apps(
    server: Server, callers: tuple[World, dict[str, Any], dict[str, str]], caller: str
) -> None:
    world, ids, tokens = callers
    status, message = REFUSALS[caller]
    assert len(MANAGED) == 29
    with server.client(tokens[caller] or None) as client:
        for each in MANAGED:
            answer = client.request(each.method, each.path.format(**{**ids, "secret_id": 1}), json={})
            assert answer.status_code == status, f"{each.name}: {answer.text}"
            assert message is None or answer.json()["message"] == message, each.name
    with server.client(world.token) as client:
        assert client.get(f"{world.org_path}/apps/{ids['slug']}").status_code == 200


def test_apps_and_installations_of_another_organization_are_not_found(server: Server, world: World, api: Api) -> None:
    """Objects with a global ID or slug must belong to the organization in the path."""
    other = server.world()
    with server.client(other.token) as client:
        theirs = made(Api(client), other, public=True)
        installed = client.post(f"{other.org_path}/installations", json={"app": theirs["slug"]}).json()
    oauth = api.post(f"{world.org_path}/oauth-apps", json={"name": new_name(), "callback_urls": [CALLBACK]}).json()
    ids = {
        "org": world.organization, "slug": theirs["slug"], "client_id": theirs["client_id"], "key_id": 1,
        "secret_id": 1, "installation_id": installed["id"],
    }  # fmt: skip
    for each in MANAGED:
        if "{" in each.path.replace("{org}", ""):
            answer = api.request(each.method, each.path.format(**ids), json={})
            assert answer.status_code == 404, f"{each.name}: {answer.text}"
    refused(api.get(f"{world.org_path}/apps/{oauth['slug']}"), 404, "Not Found")


def test_the_audit_log_records_each_write_without_secrets(server: Server, world: World, api: Api) -> None:
    app = made(api, world)
    key = api.post(f"{path(world, app)}/keys").json()
    api.delete(f"{path(world, app)}/keys/{key['id']}")
    api.delete(path(world, app))
    found = server.run(lambda services: _entries(services, app["slug"]))
    assert [action for action, _ in found] == ["app.create", "app.create_key", "app.delete_key", "app.delete"]
    assert key["fingerprint"] in found[1][1]
    for hidden in (app["client_secret"], *app["pem"].splitlines()[1:3], *key["pem"].splitlines()[1:3]):
        assert hidden not in str(found) + server.log()


# All commands of a test run in one process, because starting one takes longer than running a command.
SHELL = """
import json, sys
from click.testing import CliRunner
from workhook.cli.app import app
for line in sys.stdin:
    done = CliRunner().invoke(app, json.loads(line))
    print(json.dumps([done.exit_code, done.stdout, done.stderr]), flush=True)
"""


class Cli:
    """Runs commands in a process beside the server."""

    def __init__(self, shell: subprocess.Popen[str]) -> None:
        self._shell = shell

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run a command and return its exit status, standard output and standard error."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(json.dumps(words) + "\n")
        self._shell.stdin.flush()
        status, output, errors = json.loads(self._shell.stdout.readline())
        return status, output, errors

    def json(self, *words: str) -> Any:
        """Run a command that must succeed, and return its JSON output."""
        status, output, errors = self.run(*words, "--json")
        assert (status, errors) == (0, "")
        return json.loads(output)


@pytest.fixture(scope="module")
def cli(server: Server) -> Iterator[Cli]:
    command = [sys.executable, "-c", SHELL]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=server.environment(), stdin=pipe, stdout=pipe, text=True) as shell:
        yield Cli(shell)
        assert shell.stdin is not None
        shell.stdin.close()


@pytest.mark.whole
def test_the_app_commands_manage_apps_and_installations(
    server: Server, world: World, api: Api, tmp_path: Path, cli: Cli
) -> None:
    answer, name, kept = cli.json, new_name(), tmp_path / "key.pem"
    owner = ("--organization", world.organization)
    app = answer(
        "app", "create", *owner, "--name", name, "--permissions", "work:write", "--key-file", str(kept), "--public"
    )
    assert app["permissions"] == {"work": "write"}
    assert "pem" not in app
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o600
    assert status_of(server, signed(app["client_id"], kept.read_text())) == 200

    status, output, errors = cli.run("app", "create", *owner, "--name", new_name(), "--key-file", str(kept))
    assert (status, output) == (1, "")
    assert "already exists" in errors
    elsewhere = tmp_path / "other.pem"
    assert cli.run("app", "create", *owner, "--name", name, "--key-file", str(elsewhere))[0] == 1
    assert not elsewhere.exists()

    slug = app["slug"]
    unknown = cli.run("app", "edit", slug, "--permissions", "work:all, hooks=read")
    assert (unknown[0], "'work:all', 'hooks=read' are not among repository_hooks" in unknown[2]) == (2, True)
    assert answer("app", "edit", slug, "--permissions", "")["permissions"] == {}
    assert answer("app", "edit", slug, "--permissions", "work=write")["permissions"] == {"work": "write"}
    assert f"{slug} is an app.\nUse `workhook app`." in cli.run("oauth-app", "show", slug)[2]
    key = answer("app", "new-key", slug)
    assert status_of(server, signed(app["client_id"], key["pem"])) == 200
    answer("app", "delete-key", slug, str(key["id"]))
    assert status_of(server, signed(app["client_id"], key["pem"])) == 401
    installed = answer("app", "install", slug, *owner, "--repository", world.repository)
    assert (installed["repository_selection"], installed["permissions"]) == ("selected", {"work": "write"})
    assert [each["id"] for each in answer("app", "installations", *owner)] == [installed["id"]]
    answer("app", "edit", slug, "--permissions", "work:write,repository_hooks:read", "--description", "x")
    bot = cli.run("token", "create", "--user", f"{slug}[bot]", "--scopes", "repo")
    assert bot[:2] == (1, "")
    assert f"{slug}[bot] is the bot of an app, not a user." in bot[2]
    member = cli.run("member", "add", *owner, "--user", f"{slug}[bot]", "--role", "owner")
    assert member[:2] == (1, "")
    install = ("app", "install", slug, *owner)
    assert answer(*install) == {**installed, "changed": False}  # nothing is granted unless requested
    assert "was already installed there; nothing has changed" in cli.run(*install)[1]
    for one, other in (("--permissions", "work:read"), ("--repository", world.repository)):
        both = "--all-permissions" if one == "--permissions" else "--all-repositories"
        assert cli.run(*install, one, other, both)[0] == 2
    widened = answer(*install, "--all-permissions")
    assert (widened["id"], widened["changed"]) == (installed["id"], True)
    assert widened["permissions"] == {"work": "write", "repository_hooks": "read"}
    assert widened["repository_ids"] == installed["repository_ids"]
    narrowed = answer(*install, "--permissions", "work:read", "--all-repositories")
    assert (narrowed["permissions"], narrowed["repository_selection"]) == ({"work": "read"}, "all")
    assert answer(*install, "--all-permissions")["repository_selection"] == "all"
    assert answer("app", "show", app["client_id"])["description"] == "x"
    secret = answer("app", "new-secret", slug)
    assert len(secret["client_secret"]) == 40
    assert answer("app", "delete-secret", slug, str(secret["id"])) == {"id": secret["id"], "deleted": True}
    assert [each["slug"] for each in answer("app", "list", *owner)] == [slug]
    nothing = {"app": slug, "organization": world.organization, "webhooks_left": [], "webhooks_removed": []}
    assert answer("app", "uninstall", slug, *owner) == {**nothing, "removed": True}
    assert answer("app", "uninstall", slug, *owner) == {**nothing, "removed": False}
    answer("app", "edit", slug, "--private")
    abroad = cli.run("app", "install", slug, "--organization", server.world().organization)
    assert (abroad[0], f"`workhook app edit {slug} --public`" in abroad[2]) == (1, True)
    assert answer("app", "delete", slug)["deleted"] is True
    assert api.get(f"{world.org_path}/apps/{slug}").status_code == 404


def test_uninstalling_keeps_webhooks_unless_their_removal_is_requested(
    server: Server, world: World, api: Api, cli: Cli
) -> None:
    """The app's webhooks belong to the organization.

    They are kept unless listed for removal; other webhooks are always kept.
    """
    app = make_app(server, world)
    own = api.hook(Place("repository", world))["url"]

    def made(installation_id: int, number: int) -> list[str]:
        with server.client(installation_token(server, installation_id)) as client:
            places = [Place(kind, world) for kind in ("organization", "repository")]
            config = {"url": f"http://127.0.0.1:9/app-{number}"}
            return [Api(client).hook(each, config=config)["url"].removeprefix(server.url) for each in places]

    words = (app.slug, "--organization", world.organization)
    first = made(app.installation_id, 1)
    left = cli.run("app", "uninstall", *words)[1]
    assert "its webhooks remain active" in left
    assert left.splitlines()[2:] == first
    again = made(cli.json("app", "install", *words)["id"], 2)
    gone = cli.json("app", "uninstall", *words, "--remove-webhooks")
    assert (gone["webhooks_left"], gone["webhooks_removed"]) == ([], again)
    statuses = [api.get(each).status_code for each in (*first, *again, own)]
    assert statuses == [200, 200, 404, 404, 200]


def test_the_oauth_app_commands_manage_oauth_apps(world: World, api: Api, cli: Cli) -> None:
    answer = partial(cli.json, "oauth-app")
    owner = ("--organization", world.organization)
    status, output, errors = cli.run("oauth-app", "create", *owner, "--name", "日", "--callback-url", "ftp://a")
    assert (status, output, errors.count("\n")) == (1, "", 2)
    app = answer("create", *owner, "--name", new_name(), "--callback-url", CALLBACK, "--callback-url", f"{CALLBACK}/2")
    assert api.read(f"{world.org_path}/oauth-apps/{app['client_id']}")["callback_urls"] == [CALLBACK, f"{CALLBACK}/2"]
    assert answer("edit", app["slug"], "--callback-url", CALLBACK, "--device-flow")["device_flow"] is True
    secret = answer("new-secret", app["slug"])
    shown = answer("show", app["slug"])
    assert [each["last_eight"] for each in shown["secrets"]] == [each["client_secret"][-8:] for each in (app, secret)]
    assert app["client_secret"] not in json.dumps(shown)
    answer("delete-secret", app["slug"], str(secret["id"]))
    status, output, errors = cli.run("oauth-app", "delete-secret", app["slug"], str(secret["id"]))
    assert (status, output) == (1, "")
    assert f"`workhook oauth-app show {app['slug']}` shows their IDs." in errors
    assert [each["client_id"] for each in answer("list", *owner)] == [app["client_id"]]
    assert answer("delete", app["client_id"])["deleted"] is True
    until(lambda: api.read(f"{world.org_path}/oauth-apps") == [])


async def _login(services: Services, login: str) -> int | None:
    found = await find_account(services.database, login)
    return found.id if found else None


async def _entries(services: Services, target: str) -> list[tuple[str, str]]:
    rows = await services.database.fetch_all(
        audit_log.select().where(audit_log.c.target == target).order_by(audit_log.c.id)
    )
    return [(row["action"], row["detail"]) for row in rows]


async def _fine_grained(services: Services, world: World) -> str:
    """Return a fine-grained token of the owner with every permission on the organization."""
    permissions = dict.fromkeys(("work", "repository_hooks", "organization_hooks"), "write")
    async with services.database.transaction() as tx:
        owner, place = await find_account(tx, world.owner), await find_account(tx, world.organization)
        assert owner is not None
        assert place is not None
        return (await issue(tx, FINE_GRAINED, owner.id, permissions=permissions, account_id=place.id)).token
