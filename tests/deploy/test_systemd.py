"""The systemd units are valid, and a server runs under their restrictions as far as a test can apply these."""

from __future__ import annotations

import configparser
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.harness.own_process import OwnProcess
from tests.harness.server import Server
from workhook.core.config import Settings, load

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
SERVERS = ("workhook.service", "workhook@.service")
NAMES = (*SERVERS, "workhook-worker.service")
BACKUP = "workhook-backup.service"
TIMER = "workhook-backup.timer"
WORKER_LISTEN = " WORKHOOK_WORKER_LISTEN=127.0.0.1:9100"
EXPOSURE_MAX = 20  # in tenths, from 0 (fully confined) to 10 (unrestricted)

# Prevent the next program and its children from making written memory executable and from gaining privileges.
_CONFINED = (
    "import ctypes, os, sys\n"
    "libc = ctypes.CDLL(None, use_errno=True)\n"
    "assert libc.prctl(65, 1, 0, 0, 0) == 0, 'PR_SET_MDWE'\n"
    "assert libc.prctl(38, 1, 0, 0, 0) == 0, 'PR_SET_NO_NEW_PRIVS'\n"
    "os.umask(0o077)\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)


def unit(name: str) -> configparser.RawConfigParser:
    read = configparser.RawConfigParser(strict=False)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read_string((UNITS / name).read_text(encoding="utf-8"))
    return read


def settings_of(name: str) -> Settings:
    pairs = (each.split("=", 1) for each in unit(name)["Service"]["Environment"].split())
    return load({}, dict(pairs))


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Write the units with the command of this environment. The template becomes an instance on port 8001."""
    for name in (*NAMES, BACKUP):
        text = (UNITS / name).read_text(encoding="utf-8")
        assert "/opt/workhook/bin/workhook" in text
        command = Path(sys.executable).with_name("workhook")
        (tmp_path / instance_of(name)).write_text(text.replace("/opt/workhook/bin/workhook", str(command)))
    shutil.copy(UNITS / TIMER, tmp_path)
    return tmp_path


def instance_of(name: str) -> str:
    return name.replace("@.", "@8001.")


@pytest.fixture(scope="module")
def analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("systemd-analyze is not installed: NOT TESTED. Install systemd.")
    return found


@pytest.mark.parametrize("name", [*NAMES, BACKUP, TIMER])
def test_systemd_accepts_the_units(analyze: str, installed: Path, name: str) -> None:
    command = [analyze, "verify", "--man=no", str(installed / instance_of(name))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    said = [line for line in done.stderr.splitlines() if instance_of(name) in line]
    assert (done.returncode, said) == (0, [])


@pytest.mark.parametrize("name", [*NAMES, BACKUP])
def test_the_units_are_confined(analyze: str, installed: Path, name: str) -> None:
    command = [analyze, "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(installed / instance_of(name))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


def test_the_units_differ_only_in_their_command() -> None:
    server, *others = (dict(unit(name)["Service"]) for name in NAMES)
    for other in others:
        other["Environment"] = other["Environment"].removesuffix(WORKER_LISTEN)
        assert {key for key, value in server.items() if other[key] != value} == {"ExecStart"}
    stop_s = int(server["TimeoutStopSec"])
    settings = settings_of(NAMES[0])
    assert settings.drain_delay_s == 5
    assert stop_s > settings.drain_delay_s + settings.drain_s, "it is not killed while it finishes"


def test_the_address_of_the_worker_can_be_set() -> None:
    """The settings file overrides the unit's variables, but not the options of its command."""
    worker = unit("workhook-worker.service")["Service"]
    assert worker["ExecStart"].endswith("workhook worker")
    assert worker["Environment"].endswith(WORKER_LISTEN)


def test_template_instances_have_their_own_port_and_exclude_the_single_server() -> None:
    template = unit("workhook@.service")
    assert template["Service"]["ExecStart"].endswith("workhook serve --port %i")
    assert template["Unit"]["Conflicts"] == "workhook.service", "one data folder has one SQLite server"


def test_the_backup_is_as_confined_as_the_server() -> None:
    server, backup = unit(NAMES[0])["Service"], unit(BACKUP)["Service"]
    own = {"Type", "ExecStart", "Environment", "Nice", "IOSchedulingClass", "StateDirectory"}
    running = {"Restart", "RestartSec", "KillMode", "TimeoutStopSec", "LimitNOFILE"}
    assert {key for key, value in server.items() if backup.get(key) != value} <= own | running
    assert unit(TIMER)["Install"]["WantedBy"] == "timers.target"


def test_the_backup_unit_makes_a_backup_and_deletes_old_ones(tmp_path: Path) -> None:
    """Run both commands of the unit with other folders."""
    lines = (UNITS / BACKUP).read_text(encoding="utf-8").splitlines()
    commands = [line.removeprefix("ExecStart=") for line in lines if line.startswith("ExecStart=")]
    kept, old = tmp_path / "kept", tmp_path / "kept" / "20200101T000000Z"
    old.mkdir(parents=True)
    os.utime(old, (0, 0))
    workhook = Path(sys.executable).with_name("workhook")
    environment = {**os.environ, "WORKHOOK_DATA": str(tmp_path / "data")}
    setup = ["setup", "--organization", "acme", "--owner", "octo", "--email", "octo@example.com"]
    subprocess.run([workhook, *setup], env=environment, check=True, capture_output=True, timeout=60)
    for command in commands:
        words = shlex.split(command.replace("%%", "%").replace("/opt/workhook/bin/workhook", str(workhook)))
        words = [word.replace("/var/lib/workhook-backups", str(kept)) for word in words]
        subprocess.run(words, env=environment, check=True, capture_output=True, timeout=60)
    [made] = kept.iterdir()
    assert made != old
    assert (made / "manifest.json").exists()


def test_commands_run_with_the_settings_of_the_units(tmp_path: Path) -> None:
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\n[ "$2" = --user=workhook ] || exit 1\nshift 3\nexec "$@"\n')
    (tmp_path / "workhook.env").write_text(
        "WORKHOOK_BASE_URL=https://work.example.com\nWORKHOOK_SMTP_URL=smtp://mail.example.com\n"
        "WORKHOOK_MAIL_FROM='Acme Studio <work@example.com>'\n"
    )
    text = (UNITS / "workhook-command").read_text(encoding="utf-8")
    for installed, here in (
        ("/opt/workhook/bin/workhook", Path(sys.executable).with_name("workhook")),
        ("/var/lib/workhook", tmp_path / "data"),
        ("/etc/workhook", tmp_path),
    ):
        assert installed in text
        text = text.replace(installed, str(here))
    command = tmp_path / "workhook"
    command.write_text(text)
    for each in (sudo, command):
        each.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def run(*words: str) -> str:
        return subprocess.run(
            [command, *words], env=environment, check=True, capture_output=True, text=True, timeout=60
        ).stdout

    run("setup", "--organization", "acme", "--owner", "octo", "--email", "octo@example.com", "--project", "A project")
    assert run("user", "sign-in-link", "--login", "octo").startswith("https://work.example.com/login/link/")
    assert (tmp_path / "data" / "workhook.db").exists()


def test_the_user_of_the_units_is_created() -> None:
    lines = [each.split() for each in (UNITS / "workhook.sysusers").read_text().splitlines() if each[:1] == "u"]
    assert [each[1] for each in lines] == [unit(NAMES[0])["Service"]["User"]]
    if shutil.which("systemd-sysusers"):
        subprocess.run(
            ["systemd-sysusers", "--dry-run", str(UNITS / "workhook.sysusers")], check=True, capture_output=True
        )


class ConfinedServer(OwnProcess):
    def command_line(self) -> Sequence[str]:
        return [sys.executable, "-c", _CONFINED, sys.executable, "-m", "workhook", *self.command]


@pytest.fixture
def confined(tmp_path: Path) -> Iterator[Server]:
    release = tuple(int(each) for each in os.uname().release.split(".")[:2])
    if sys.platform != "linux" or release < (6, 3):
        pytest.skip("Linux before 6.3 cannot refuse executable memory by prctl: NOT TESTED.")
    server = ConfinedServer(tmp_path / "data", {}).start()
    yield server
    server.close()


@pytest.mark.whole
def test_a_server_needs_no_executable_memory(confined: Server) -> None:
    """This includes native code: TLS and passwords, the database, and Typst in its own process."""
    for name in NAMES:
        assert unit(name)["Service"]["MemoryDenyWriteExecute"] == "yes"
    world = confined.world()
    with confined.client(world.token) as client:
        line = {"description": "Hosting", "qty": 1, "unit_price": 9.9}
        fields = {"bill_to": "Büro Ö", "currency": "EUR", "tax": 20, "invoice_items": [line]}
        made = client.post(f"/api/v1/projects/{world.project_id}/invoices", json=fields).raise_for_status().json()
        invoice = f"/api/v1/invoices/{made['invoice']['id']}"
        client.post(f"{invoice}/send").raise_for_status()
        assert client.get(f"{invoice}/pdf").raise_for_status().content.startswith(b"%PDF-")
        assert client.get("/login", headers={"Accept": "text/html"}).status_code == 200
    assert (confined.data / "workhook.db").stat().st_mode & 0o077 == 0
    assert confined.stop() == 0
