"""No command writes control sequences to the terminal, even if a receiver, a board or a file contains them."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click import Group

from tests.cli.cli_kit import Cli
from tests.cli.test_terminal import seen
from tests.harness.receiver import Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until
from workhook.cli.app import app
from workhook.git_push.spool import HookFolder

MARK = "owned"
HOSTILE = f"x\x1b]0;{MARK}\x07\x9b31m\u202e\u2066\u200f\u061c\x7f\r\u2028[red]y[/red][link=http://a]z"
LONG_RUNNING = {"serve", "worker"}  # their output is the ready line and the log, covered by tests/unit/test_terminal.py

# Texts from others that the API accepts, or accepted in earlier versions.
COLUMNS = [("accounts", "name"), ("accounts", "email"), ("tokens", "note"), ("hooks", "url"), ("projects", "title"),
           ("apps", "name"), ("apps", "description"), ("apps", "homepage_url"),
           ("audit_log", "target"), ("audit_log", "action"), ("deliveries", "url")]  # fmt: skip


def leaves(group: Group, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with its words."""
    for name, each in group.commands.items():
        if isinstance(each, Group):
            yield from leaves(each, (*words, name))
        else:
            yield (*words, name), each


COMMANDS = dict(leaves(app))


def obeyed(text: str) -> list[str]:
    return sorted({ascii(each) for each in text if not each.isprintable() and each not in "\n\t"})


def is_plain(done: subprocess.CompletedProcess[str]) -> None:
    assert "Traceback" not in done.stderr
    assert (obeyed(done.stdout), obeyed(done.stderr)) == ([], []), done.args
    assert done.returncode in (0, 1, 2), done.stderr


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """Return a data folder with hostile texts, and a delivery to a hostile receiver."""
    folder = Path(tmp_path_factory.mktemp("hostile"))
    cli, receiver = Cli(folder / "data", {}), Receiver()
    made = cli.setup("--project", "Website")
    cli.json("app", "create", "--organization", "acme", "--name", "Robot", "--permissions", "work:read")
    cli.json("oauth-app", "create", "--organization", "acme", "--name", "Page", "--callback-url", "https://a.example/")
    server = Server(cli.data, {}).start()
    header = HOSTILE.translate({0x0D: None, 0x0A: None}).encode().decode("latin-1")
    receiver.reply = lambda _: Reply(500, {"X-Evil": header}, HOSTILE.encode())
    with server.client(made["token"]) as client:
        hook = {"config": {"url": receiver.url, "content_type": "json", "retries": "0"}, "events": ["push"]}
        client.post("/repos/acme/website/hooks", json=hook).raise_for_status()
        sent = {"event": "push", "payload": {"ref": HOSTILE}}
        client.post("/repos/acme/website/events", json=sent).raise_for_status()
    until(lambda: cli.json("deliveries", "list", "--repository", "acme/website", "--event", "push"))
    server.stop()
    receiver.close()
    with sqlite3.connect(cli.data / "workhook.db") as database:
        database.execute("PRAGMA ignore_check_constraints = ON")
        known = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table, column in COLUMNS:
            if table in known and column in {row[1] for row in database.execute(f"PRAGMA table_info({table})")}:
                database.execute(f"UPDATE {table} SET {column} = {column} || ?", [HOSTILE])  # the option names are ours
    database.close()
    return cli


def id_of(cli: Cli, *words: str) -> str:
    return str(cli.json(*words)[0]["id"])


@pytest.mark.whole
def test_stored_control_sequences_are_escaped(cli: Cli, tmp_path: Path) -> None:
    delivery = id_of(cli, "deliveries", "list", "--repository", "acme/website", "--event", "push")
    board = tmp_path / f"board{HOSTILE.replace('/', '')}.json"
    board.write_text(json.dumps({"id": "b", "name": HOSTILE, "lists": [{"id": "l", "name": HOSTILE, "pos": 1}],
        "cards": [{"id": "c", "idList": "l", "name": HOSTILE, "idMembers": ["m"], "labels": [{"name": HOSTILE}]}],
        "members": [{"id": "m", "username": HOSTILE, "fullName": HOSTILE}],
        "actions": [{"type": HOSTILE}]}))  # fmt: skip
    (cli.data / "server.json").write_text(json.dumps({"url": f"http://{HOSTILE}:1", "pid": 1}))
    reads = [
        ("user", "list"), ("token", "list"), ("app", "list", "--organization", "acme"), ("app", "show", "robot"),
        ("app", "installations", "robot"), ("oauth-app", "list", "--organization", "acme"),
        ("oauth-app", "show", "page"),
        ("deliveries", "list", "--repository", "acme/website"), ("deliveries", "show", delivery),
        ("audit", "list"), ("import", "trello", str(board), "--organization", "acme", "--dry-run"),
        ("import", "trello", str(board), "--organization", "acme"), ("doctor",),
        ("user", "sign-in-link", "--login", "octo"), ("user", "password-link", "--login", "octo"),
    ]  # fmt: skip
    shown = []
    for words in reads:
        for more in ((), ("--json",)):
            done = cli.run(*words, *more)
            is_plain(done)
            if more and done.returncode == 0:
                json.loads(done.stdout)
            if MARK in done.stdout + done.stderr:
                shown.append(words[0])
    assert {"user", "token", "deliveries", "import"} <= set(shown)  # the hostile text is in the output, escaped
    told = cli.run("deliveries", "show", delivery).stdout
    assert r"\x1b]0;owned\x07" in told
    assert "[red]y[/red][link=http://a]z" in told  # Rich markup is printed as text
    assert json.loads(cli.run("deliveries", "show", delivery, "--json").stdout)["response"]["payload"] == HOSTILE
    exported = cli.run("audit", "export")
    is_plain(exported)


@pytest.mark.parametrize("words", sorted(COMMANDS), ids=" ".join)
def test_control_sequences_in_arguments_are_escaped_in_messages(
    cli: Cli, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Try the hostile text for every option and argument of each command, one by one and all at once."""
    monkeypatch.chdir(tmp_path)  # `backup` creates a folder with this name
    command = COMMANDS[words]
    given = [(each.opts[0] if each.param_type_name == "option" else None, each) for each in command.params]
    valued = [name for name, each in given if name and not getattr(each, "is_flag", False) and name != "--help"]
    tries: list[list[str]] = [[HOSTILE], [f"--{HOSTILE}"]]
    if words[0] not in LONG_RUNNING:
        tries.append([part for name in valued if name != "--data" for part in (name, HOSTILE)])
        tries += [[name, HOSTILE] for name in valued if name != "--data"]
    for each in tries:
        is_plain(cli.run(*words, *each, given=f"0 1 {HOSTILE}\n", GIT_DIR=str(tmp_path)))


def test_a_terminal_gets_only_our_own_styling(cli: Cli) -> None:
    delivery = id_of(cli, "deliveries", "list", "--repository", "acme/website", "--event", "push")
    for width in (40, 100, 400):
        for words in (("user", "list"), ("token", "list"), ("deliveries", "show", delivery), ("audit", "list")):
            assert obeyed(seen(cli, width, *words)) == [], words


def test_the_git_hook_escapes_control_sequences(cli: Cli, tmp_path: Path) -> None:
    git_dir = tmp_path / f"a{HOSTILE.replace('/', '')}.git"
    folder = HookFolder(git_dir)
    folder.root.mkdir(parents=True)
    folder.spool.write_text("no folder")
    push = f"{'0' * 40} {'1' * 40} refs/heads/{HOSTILE}\n"
    done = cli.run("git-hook", "post-receive", given=push, GIT_DIR=str(git_dir))
    assert "could not be recorded" in done.stderr
    assert MARK in done.stderr
    is_plain(done)
    assert obeyed((folder.root / "log").read_text()) == []
