"""The `workhook` command, run as scripts run it: names, options, JSON, exit statuses and error messages."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cli_kit import Cli
from tests.harness.databases import Databases
from tests.harness.receiver import Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until

TOKEN = re.compile(r"whp_[0-9A-Za-z]{36}")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "data", {})


@pytest.fixture
def any_cli(tmp_path: Path, backend: Databases) -> Cli:
    """Return the command on each database in turn."""
    data = tmp_path / "data"
    return Cli(data, backend.new(data))


@pytest.fixture
def start(cli: Cli) -> Iterator[Callable[[], Server]]:
    """Return a function that starts a server on the command's data folder."""
    running: list[Server] = []

    def begin() -> Server:
        running.append(Server(cli.data, {}).start())
        return running[-1]

    yield begin
    for each in running:
        each.close()


def test_links_use_the_public_address_of_the_running_server(cli: Cli) -> None:
    cli.setup()
    running = Server(cli.data, {"base_url": "https://work.example.com"}).start()
    try:
        assert cli.json("user", "sign-in-link", "--login", "octo")["url"].startswith("https://work.example.com/login/")
    finally:
        running.close()


# --- setup -------------------------------------------------------------------------------------------------------


def test_setup_is_idempotent(any_cli: Cli) -> None:
    first = any_cli.setup("--project", "Website")
    assert first == {
        "organization": "acme",
        "login": "octo",
        "project_id": first["project_id"],
        "repository": "acme/website",
        "token": first["token"],
    }
    assert re.fullmatch(r"prj_[0-9a-z]{26}", first["project_id"])
    assert TOKEN.fullmatch(first["token"])
    [entry] = any_cli.json("audit", "list", "--organization", "acme", "--action", "organization")
    made = {"organization": "acme", "user": "octo", "owner": "octo", "token_id": any_cli.json("token", "list")[0]["id"]}
    assert (entry["action"], entry["target"]) == ("organization.setup", "acme")
    assert entry["data"] == {"user": "octo", "made": made}
    assert any_cli.setup("--project", "Website") == {**first, "token": None}
    assert any_cli.setup() == {**first, "token": None, "project_id": None, "repository": None}
    again = any_cli.setup("--new-token")["token"]
    assert TOKEN.fullmatch(again)
    assert again != first["token"]
    entries = any_cli.json("audit", "list", "--action", "organization.setup")
    assert [list(each["data"]["made"]) for each in entries] == [["token_id"], list(made)], "nothing done, nothing said"
    assert [each["login"] for each in any_cli.json("user", "list")] == ["octo"]
    issued = any_cli.json("token", "list")
    assert [each["user"] for each in issued] == ["octo", "octo"]
    assert set(issued[0]["scopes"]) == {"repo", "admin:org", "admin:org_hook", "work"}
    assert all(datetime.fromisoformat(each["expires_at"]) <= datetime.now(UTC) + timedelta(days=365) for each in issued)
    any_cli.setup("--new-token", "--scopes", "repo, admin:org", "--expires-in", "7")
    newest = any_cli.json("token", "list")[-1]
    assert set(newest["scopes"]) == {"repo", "admin:org"}
    assert datetime.fromisoformat(newest["expires_at"]) <= datetime.now(UTC) + timedelta(days=7)
    assert "--expires-in" in any_cli.refused(
        "setup", "--organization", "acme", "--owner", "octo", "--expires-in", "366", status=2
    )


def test_setup_does_not_mistake_a_user_for_an_organization(cli: Cli) -> None:
    cli.setup()
    said = cli.refused("setup", "--organization", "octo", "--owner", "octo")
    assert said == "workhook: octo is a user, not an organization.\nChoose another login.\n"
    assert "acme is an organization, not a user." in cli.refused("setup", "--organization", "acme", "--owner", "acme")
    assert "Add --email" in cli.refused("setup", "--organization", "acme", "--owner", "mona")
    assert [each["login"] for each in cli.json("user", "list")] == ["octo"]


# --- the first start ---------------------------------------------------------------------------------------------


def test_only_the_first_start_prints_how_to_sign_in(start: Callable[[], Server], cli: Cli) -> None:
    server = start()
    assert not TOKEN.findall(server.log())
    [token] = TOKEN.findall(server.first_sign_in())
    with server.client(token) as client:
        projects = client.get("/api/v1/projects").json()["projects"]
        assert [each["full_name"] for each in projects] == ["workhook/getting-started"]
        me = client.get("/user")
        assert me.json()["login"] == "owner"
        ends = me.headers["github-authentication-token-expiration"].removesuffix(" UTC")
        assert datetime.fromisoformat(f"{ends}+00:00") <= datetime.now(UTC) + timedelta(days=1)
    assert re.search(
        r"^workhook: sign-in link for owner, valid once and for an hour: http\S+/login/link/",
        server.first_sign_in(),
        re.M,
    )
    assert str(cli.data / "first-sign-in.txt") in server.log()
    server.kill()
    assert not TOKEN.findall(start().log())


def test_a_database_after_setup_has_no_first_start(start: Callable[[], Server], cli: Cli) -> None:
    made = cli.setup("--project", "Website")
    server = start()
    assert not TOKEN.findall(server.log())
    with server.client(made["token"]) as client:
        assert client.get(f"/api/v1/projects/{made['project_id']}").json()["project"]["name"] == "website"


# --- people ------------------------------------------------------------------------------------------------------


def test_users_members_and_collaborators_are_managed(any_cli: Cli) -> None:
    any_cli.setup("--project", "Website")
    mona = any_cli.json("user", "add", "--login", "mona", "--email", "mona@example.com", "--name", "Mona Lisa")
    assert (mona["login"], mona["email"], mona["name"]) == ("mona", "mona@example.com", "Mona Lisa")
    assert any_cli.json("user", "list")[1] == mona
    place = ("--organization", "ACME", "--user", "mona")
    assert any_cli.json("member", "add", *place) == {"organization": "acme", "user": "mona", "role": "member"}
    assert any_cli.json("member", "add", *place, "--role", "owner")["role"] == "owner"
    gone = {"organization": "acme", "user": "mona", "removed": True}
    assert any_cli.json("member", "remove", *place) == gone
    assert any_cli.json("member", "remove", *place) == {**gone, "removed": False}
    where = ("--repository", "acme/website", "--user", "mona")
    added = any_cli.json("collaborator", "add", *where, "--role", "write")
    assert added == {"repository": "acme/website", "user": "mona", "role": "write"}
    assert any_cli.json("collaborator", "remove", *where)["removed"] is True
    assert any_cli.json("collaborator", "remove", *where)["removed"] is False


def test_user_list_prints_a_table(cli: Cli) -> None:
    cli.json("migrate")
    assert cli.text("user", "list") == "No users yet. Create one with `workhook user add`.\n"
    cli.setup()
    header, row = cli.text("user", "list").splitlines()
    assert header.split() == ["login", "email", "name", "created", "at"]
    assert row.split()[:3] == ["octo", "octo@example.com", "-"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("user add --login octo --email a@example.com", "login octo is taken"),
        ("user add --login -x --email nobody", "email must be an e-mail address"),
        ("member add --organization acme --user nobody", "user nobody does not exist."),
        (
            "member add --organization nowhere --user octo",
            "organization nowhere does not exist.\nThis server has: acme.",
        ),
        ("member remove --organization acme --user octo", "octo is the last owner of acme"),
        ("collaborator add --repository acme/none --user octo --role read", "repository acme/none does not exist."),
        ("token create --user acme --scopes repo", "acme is an organization, not a user."),
        ("token revoke 4711", "token 4711 does not exist."),
        ("event publish --repository acme/website --event nonsense", 'Unknown event "nonsense"'),
        ("event publish --repository acme/website --event push --payload /none", "/none cannot be read"),
        ("deliveries list --hook 4711", "webhook 4711 does not exist."),
        ("deliveries show 4711", "delivery 4711 does not exist."),
        ("git-hook install --git-dir / --repository acme/website", "neither a Git repository"),
    ],
)
def test_a_mistake_is_explained_without_a_traceback(made_cli: Cli, words: str, said: str) -> None:
    told = made_cli.refused(*words.split())
    assert told.startswith("workhook: ")
    assert said in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("member add --organization acme --user octo --role king", "'king' is not one of 'owner', 'member'"),
        ("collaborator add --repository acme/website --user octo --role king", "one of 'read', 'write', 'admin'"),
        ("collaborator add --repository acme --user octo --role read", "Write OWNER/NAME"),
        ("token create --user octo --scopes repo,king", "'king' is not one of repo, admin:repo_hook, "),
        ("token create --user octo --scopes repo --kind oauth", "is not one of 'classic'"),
        ("token create --user octo --scopes repo --expires-in -1", "'-1' is not a number of days greater than 0"),
        ("deliveries list", "Use exactly one of --hook, --repository, and --organization."),
        ("deliveries list --hook 1 --status ok", "'ok' is not one of 'success', 'failure'"),
        ("deliveries list --hook 1 --since yesterday", "'yesterday' is not a time such as 2026-"),
        ("deliveries list --hook 1 --limit 0", "'0' is not a whole number of at least 1"),
        ("deliveries redeliver 4711 --status failure", "IDs and filters cannot be combined."),
        ("setup --organization acme --owner -x --email octo@example.com", "--owner '-x': login must be 1 to 39"),
        ("git-hook install --git-dir {bare} --repository acme/website --token whp_bad", "--token is not a token"),
    ],
)
def test_an_invalid_option_is_named_with_its_valid_values(made_cli: Cli, words: str, said: str, tmp_path: Path) -> None:
    git(tmp_path, "init", "--bare", "r.git")
    told = made_cli.refused(*words.format(bare=tmp_path / "r.git").split(), status=2)
    assert said in told
    assert "Value error" not in told
    assert not (tmp_path / "r.git" / "workhook").exists()


def test_all_invalid_options_are_named_at_once(made_cli: Cli) -> None:
    told = made_cli.refused("member", "add", "--role", "king", "--nonsense", status=2)
    for name in ("--organization", "--user", "'king'", "--nonsense"):
        assert name in told
    told = made_cli.refused("setup", "--organization", "a b", "--owner", "c d", "--email", "nobody", status=2)
    for name in ("--organization 'a b'", "--owner 'c d'", "--email 'nobody'"):
        assert name in told


@pytest.fixture(scope="module")
def made_cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    cli = Cli(tmp_path_factory.mktemp("cli"), {})
    cli.setup("--project", "Website")
    return cli


def test_an_argument_that_is_not_utf_8_is_refused(made_cli: Cli, tmp_path: Path) -> None:
    bad = os.fsdecode(b"M\xfcller")
    told = made_cli.refused("user", "add", "--login", bad, "--email", "a@example.com", "--name", bad, status=2)
    for name in ("--login", "--name"):
        assert rf"Invalid value for '{name}': 'M\xfcller' is not UTF-8." in told
    for words, name in (
        (("token", "create", "--user", "octo", f"--scopes={bad}"), "--scopes"),
        (("app", "install", bad, "--organization", "acme"), "APP"),
        (
            ("app", "install", "keeper", "--organization", "acme", "--repository", "a", "--repository", bad),
            "--repository",
        ),
        (("user", "list", "--data", str(tmp_path / bad)), "--data"),
        (("user", "set-password", "--login", "octo", "--password-file", bad), "--password-file"),
    ):
        told = made_cli.refused(*words, status=2)
        assert re.search(rf"Invalid value for '{name}': '.*M\\xfcller' is not UTF-8\.", told), told
    made_cli.refused(bad, status=2)
    made_cli.refused("user", f"--{bad}", status=2)


# --- tokens ------------------------------------------------------------------------------------------------------


def test_a_token_is_shown_once_and_revoked_while_a_server_runs(start: Callable[[], Server], cli: Cli) -> None:
    cli.setup("--project", "Website")
    server = start()
    words = ("--user", "octo", "--kind", "classic", "--scopes", "repo, work:read,repo", "--expires-in", "1.5")
    made = cli.json("token", "create", *words)
    assert set(made) == {"token", "id", "user", "scopes", "expires_at"}
    assert (made["user"], made["scopes"]) == ("octo", ["repo", "work:read"])
    assert made["expires_at"].endswith("Z")
    with server.client(made["token"]) as client:
        assert client.get("/api/v1/projects").status_code == 200
        assert client.post("/api/v1/projects", json={"title": "a"}).status_code == 403
        assert made["token"] not in cli.text("token", "list") + json.dumps(cli.json("token", "list", "--user", "octo"))
        assert cli.json("token", "revoke", str(made["id"])) == {"id": made["id"], "revoked": True}
        until(lambda: client.get("/api/v1/projects").status_code == 401)  # the server caches tokens for at most 0.8 s
    assert cli.json("token", "revoke", str(made["id"]))["revoked"] is True
    done = [(each["action"], each["target"]) for each in cli.json("audit", "list", "--action", "token")]
    assert done == [(f"token.{what}", f"token {made['id']}") for what in ("revoke", "create")]
    assert cli.json("token", "list")[-1]["revoked_at"] is not None
    assert TOKEN.fullmatch(cli.text("token", "create", "--user", "octo", "--scopes", "work").strip())


def test_a_full_output_device_is_reported(cli: Cli) -> None:
    cli.setup()
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "workhook", "user", "list", "--data", str(cli.data)],
            env={**os.environ, **cli.environment},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, "Free some space where the command" in done.stderr) == (1, True), done.stderr
    assert "Traceback" not in done.stderr


# --- events and deliveries ---------------------------------------------------------------------------------------


def test_events_are_published_listed_shown_and_redelivered(
    start: Callable[[], Server], cli: Cli, receiver: Receiver, tmp_path: Path
) -> None:
    made = cli.setup("--project", "Website")
    server = start()
    receiver.reply = lambda _: Reply(500, body=b"not now")
    with server.client(made["token"]) as client:
        hook = {"config": {"url": receiver.url, "content_type": "json", "retries": "0"}, "events": ["push"]}
        hook_id = client.post("/repos/acme/website/hooks", json=hook).raise_for_status().json()["id"]
    payload = tmp_path / "payload.json"
    payload.write_text('{"ref": "refs/heads/main"}')
    to = ("--repository", "acme/website")
    words = ("event", "publish", *to, "--event", "push", "--id", "build-7", "--payload")
    assert cli.json(*words, str(payload)) == {"id": "build-7", "deliveries": 1}
    assert cli.json(*words, "-", given=payload.read_text()) == {"id": "build-7", "deliveries": 1}
    assert "with this ID" in cli.refused(*words[:-1])
    receiver.wait_for(lambda requests: any(each.event == "push" for each in requests))
    pushed = receiver.events("push")[0].payload()
    assert (pushed["ref"], pushed["repository"]["full_name"]) == ("refs/heads/main", "acme/website")
    assert pushed["repository"]["url"] == f"{server.url}/repos/acme/website"

    def delivered(number: int) -> Any:
        found = cli.json("deliveries", "list", *to, "--event", "push")
        return found if len(found) == number else None

    [failed] = until(lambda: delivered(1))
    assert (failed["status_code"], failed["hook_id"], failed["redelivery"]) == (500, hook_id, False)
    shown = cli.json("deliveries", "show", str(failed["id"]))
    assert shown["request"]["payload"] == pushed
    assert shown["response"]["payload"] == "not now"
    told = cli.text("deliveries", "show", str(failed["id"]))
    assert "> X-Service-Event: push" in told
    assert "None" not in told
    assert "redelivery: no" in told
    assert told.rstrip().endswith("not now")

    receiver.reply = lambda _: Reply(200)
    assert cli.json("deliveries", "redeliver", str(failed["id"])) == {"queued": 1}
    again, first = until(lambda: delivered(2))
    assert (again["status_code"], again["redelivery"], again["guid"]) == (200, True, failed["guid"])
    assert first == failed
    assert cli.json("deliveries", "list", *to, "--status", "failure", "--event", "push") == [failed]
    assert cli.json("deliveries", "redeliver", "--hook", str(hook_id), "--event", "push") == {"queued": 1}
    assert len(until(lambda: delivered(3))) == 3
    assert len(cli.json("deliveries", "list", *to, "--limit", "2")) == 2
    assert cli.json("deliveries", "list", "--organization", "acme") == []


def test_a_payload_must_be_one_json_object(cli: Cli) -> None:
    cli.setup("--project", "Website")
    words = ("event", "publish", "--repository", "acme/website", "--event", "push", "--payload", "-")
    for given, said in (
        ("{", "Problems parsing JSON."),
        ('{"a": 1E400}', "a number is too large for a double. Send it as text."),
        ("[]", "is not an object"),
    ):
        done = cli.run(*words, given=given)
        assert (done.returncode, done.stdout) == (1, "")
        assert said in done.stderr


# --- git-hook ----------------------------------------------------------------------------------------------------


def git(folder: Path, *words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    environment |= {
        f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    done = subprocess.run(["git", *words], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def test_a_push_becomes_an_event_even_if_the_server_starts_later(
    start: Callable[[], Server], cli: Cli, receiver: Receiver, tmp_path: Path
) -> None:
    made = cli.setup("--project", "Website")
    server = start()
    with server.client(made["token"]) as client:
        hook = {"config": {"url": receiver.url, "content_type": "json"}, "events": ["push"]}
        client.post("/repos/acme/website/hooks", json=hook).raise_for_status()
    server.kill()
    (cli.data / "server.json").unlink(missing_ok=True)

    bare, clone = tmp_path / "website.git", tmp_path / "clone"
    git(tmp_path, "init", "--bare", "-b", "main", str(bare))
    install = ("git-hook", "install", "--git-dir", str(bare), "--repository", "acme/website")
    installed = cli.json(*install)
    assert installed["hook"] == str(bare / "hooks" / "post-receive")
    tokens = len(cli.json("token", "list"))
    assert cli.json(*install) == installed
    assert len(cli.json("token", "list")) == tokens  # the token of the first installation remains in use

    git(tmp_path, "clone", str(bare), str(clone))
    git(clone, "commit", "--allow-empty", "-m", "First")
    git(clone, "push", "origin", "HEAD:main")
    start()
    until(lambda: cli.json("git-hook", "send", "--git-dir", str(bare))["pending"] == 0)
    received = receiver.wait_for(lambda requests: any(each.event == "push" for each in requests))
    push = next(each for each in received if each.event == "push").payload()
    assert (push["ref"], push["head_commit"]["message"]) == ("refs/heads/main", "First")
    assert push["sender"]["login"] == "octo"


def test_a_given_token_must_be_allowed_to_publish(cli: Cli, tmp_path: Path) -> None:
    made = cli.setup("--project", "Website")
    bare = tmp_path / "website.git"
    git(tmp_path, "init", "--bare", str(bare))
    install = ("git-hook", "install", "--git-dir", str(bare), "--repository", "acme/website", "--token")
    weak = cli.text("token", "create", "--user", "octo", "--scopes", "work").strip()
    assert "is not allowed to publish in acme/website" in cli.refused(*install, weak)
    assert not (bare / "workhook").exists()
    cli.json(*install, made["token"])
    assert json.loads((bare / "workhook" / "config.json").read_text())["token"] == made["token"]
    elsewhere = ("--url", "http://127.0.0.1:1", "--data", str(tmp_path / "none"))
    cli.json(*install, weak, *elsewhere)  # belongs to another server, so only its format can be checked
    assert not (tmp_path / "none").exists()


def test_sending_without_a_server_explains_the_failure(cli: Cli, tmp_path: Path) -> None:
    cli.setup("--project", "Website")
    bare, clone = tmp_path / "website.git", tmp_path / "clone"
    git(tmp_path, "init", "--bare", "-b", "main", str(bare))
    send = ("git-hook", "send", "--git-dir", str(bare))
    assert "no hook is installed in" in cli.refused(*send)
    cli.json("git-hook", "install", "--git-dir", str(bare), "--repository", "acme/website")
    git(tmp_path, "clone", str(bare), str(clone))
    git(clone, "commit", "--allow-empty", "-m", "First")
    git(clone, "push", "origin", "HEAD:main")
    done = cli.run(*send)  # while the sender started by the push waits for the server
    assert done.returncode == 1
    assert done.stderr.startswith(f"workhook: no server runs with the data folder {cli.data}.")
    assert "waiting 1" in done.stdout
    (cli.data / "server.json").write_text('{"url": "http://127.0.0.1:1", "pid": 1}')
    done = cli.run(*send, "--json")
    assert (done.returncode, json.loads(done.stdout)["pending"]) == (1, 1)
    assert "http://127.0.0.1:1 does not answer" in done.stderr


# --- settings, database ------------------------------------------------------------------------------------------


def test_all_invalid_settings_are_named_at_once(cli: Cli) -> None:
    said = cli.refused(
        "user", "list", "--database-url", "mysql://x", status=2, WORKHOOK_PORT="many", WORKHOOK_DRAIN_S="x"
    )
    assert len(said.splitlines()) == 4
    for name in ("--database-url", "WORKHOOK_PORT", "WORKHOOK_DRAIN_S"):
        assert name in said
    assert "--port: '99999' is invalid" in cli.refused("serve", "--port", "99999", status=2)
    assert "--allow-network: ['x', 'y'] is invalid" in cli.refused(
        "serve", "--allow-network", "x", "--allow-network", "y", status=2
    )
    assert "No such option" in cli.refused("user", "list", "--nonsense", status=2)


def test_an_option_overrides_the_environment(cli: Cli, tmp_path: Path) -> None:
    cli.setup()
    assert f"{tmp_path / 'other'} contains no Workhook data." in cli.refused(
        "user", "list", "--data", str(tmp_path / "other")
    )
    assert len(cli.json("user", "list", "--database-url", f"sqlite:///{cli.data}/workhook.db")) == 1


def test_an_unusable_database_causes_no_traceback(cli: Cli, tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"not a database at all " * 100)
    cli.setup()
    said = cli.refused("user", "list", "--database-url", f"sqlite:///{garbage}")
    assert f"{garbage}: file is not a database." in said
    said = cli.refused("user", "list", "--database-url", "postgresql://nobody:hidden@127.0.0.1:1/none")
    assert said.startswith("workhook: PostgreSQL at 127.0.0.1:1: connection refused.\nCheck --database-url")
    assert "hidden" not in said
    (tmp_path / "file").touch()
    below = str(tmp_path / "file" / "below")
    for words in (("serve", "--port", "0"), ("setup", "--organization", "a", "--owner", "b")):
        assert f"{tmp_path / 'file'} is not a folder." in cli.refused(*words, "--data", below)
    (cli.data / "secret.key").write_text("garbage")
    said = cli.refused("user", "list")
    assert f"{cli.data}/secret.key does not contain a valid key" in said
    assert len(said.splitlines()) == 2
    assert said.count("Restore ") == 1


@pytest.mark.parametrize(
    "words",
    [
        "user list",
        "user add --login octo --email o@example.com",
        "token list",
        "token revoke 1",
        "deliveries list --hook 1",
        "deliveries show 1",
        "event publish --repository acme/website --event push",
        "doctor",
    ],
)
def test_a_command_without_data_creates_none(any_cli: Cli, words: str) -> None:
    shutil.rmtree(any_cli.data)
    done = any_cli.run(*words.split())
    assert done.returncode == 1
    if words != "doctor":
        assert " contains no Workhook data" in done.stderr
        assert "--data or WORKHOOK_DATA" in done.stderr
    assert not any_cli.data.exists()


def test_migrate_reports_whether_it_changed_the_schema(cli: Cli) -> None:
    cli.data.mkdir()
    first = cli.json("migrate")
    assert first["migrated"] is True
    assert cli.json("migrate") == {**first, "migrated": False}


def test_doctor_reports_problems_and_creates_nothing(any_cli: Cli) -> None:
    any_cli.setup()
    healthy = any_cli.json("doctor")
    assert healthy["ok"] is True
    assert {each["name"] for each in healthy["checks"]} == {
        "data folder",
        "disk",
        "key",
        "database",
        "deliveries",
        "files",
        "server",
    }
    assert all(each["advice"] is None for each in healthy["checks"])
    (any_cli.data / "secret.key").chmod(0o644)
    done = any_cli.run("doctor", "--json")
    assert done.returncode == 1
    bad = {each["name"]: each for each in json.loads(done.stdout)["checks"] if not each["ok"]}
    assert set(bad) == {"key"}
    assert "chmod 600" in bad["key"]["advice"]


def test_doctor_checks_the_server(start: Callable[[], Server], cli: Cli) -> None:
    cli.setup()
    server = start()

    def seen() -> Any:
        return next(
            each for each in json.loads(cli.run("doctor", "--json").stdout)["checks"] if each["name"] == "server"
        )

    assert seen()["ok"] is True
    assert server.url in seen()["detail"]
    server.kill()
    assert seen()["ok"] is False
    assert "has ended" in seen()["detail"]
    assert seen()["advice"]


def test_doctor_does_not_create_a_database(cli: Cli) -> None:
    done = cli.run("doctor")
    assert done.returncode == 1
    assert "BAD  data folder" in done.stdout
    assert (
        "BAD  database: SQLite without a schema\n     Run `workhook migrate`, or set WORKHOOK_DATABASE_URL if"
        in done.stdout
    )
    assert not cli.data.exists()


# --- speed -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        (["--help"], {"uvicorn", "sqlalchemy", "aiohttp", "rich.console", "asyncpg"}),
        (["deliveries", "list", "--help"], {"uvicorn", "sqlalchemy", "aiohttp", "rich.console", "asyncpg"}),
        (["git-hook", "post-receive"], {"click", "msgspec", "asyncio", "uvicorn", "rich.console"}),
    ],
    ids=["help", "help-of-a-command", "post-receive"],
)
def test_help_and_the_git_hook_import_little(words: list[str], unwanted: set[str], tmp_path: Path) -> None:
    """A push waits for the hook and users for the help, so neither may import the server."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "workhook", *words],
        env={**os.environ, "GIT_DIR": str(tmp_path)},
        input="",
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "workhook.cli" in loaded
    assert not loaded & unwanted
