"""Runs the shell blocks of the documentation as a reader would."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from threading import Thread
from typing import IO, Any

from tests.harness.forge import forge
from tests.harness.waiting import until

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")),
]
END = "the block has ended: "


# Blocks that no test runs or compares, with the reason: page, language, beginning of the block ("" for all of that
# language). A page that ends with "/" is a folder. `test_every_block.py` requires each block to be listed here or in a
# call of `blocks`.
NOT_RUN = {
    ("README.md", "sh", "make run\n"): "creates an environment; the block with ARGS is run from there on",
    ("README.md", "sh", "pipx run"): "needs an index; test_packages.py installs and runs the wheel",
    ("README.md", "sh", "docker build"): "needs a container engine; test_containers.py checks it",
    ("CONTRIBUTING.md", "sh", ""): "these commands run the tests",
    ("CONTRIBUTING.md", "", ""): "a list of folders",
    ("docs/contributors/", "", ""): "diagrams",
    ("docs/integrators/events.md", "json", ""): "test_generated.py compares the whole page",
    **{
        ("docs/integrators/verify.md", language, ""): "test_generated.py compares it with the code of test_snippets.py"
        for language in ("python", "js", "go", "ruby", "php", "java")
    },
    ("docs/integrators/github-clients.md", "hcl", ""): "the tests have no Terraform; it was run by hand",
    ("docs/operators/install.md", "sh", "rm -rf dist"): "needs an index; test_packages.py builds a wheel",
    ("docs/operators/install.md", "sh", "sudo python3 -m venv"): "changes the machine; test_packages.py does the same",
    ("docs/operators/install.md", "sh", "pipx install"): "needs an index; test_upgrade.py does it without dependencies",
    ("docs/operators/install.md", "sh", "sudo install"): "changes the machine; test_systemd.py tries the units",
    ("docs/operators/install.md", "sh", "sudo systemctl"): "changes the machine; test_systemd.py tries the units",
    ("docs/operators/install.md", "sh", "workhook user sign-in-link"): "test_how_to_sign_in.py runs the command",
    ("docs/operators/install.md", "sh", "export VERSION"): "needs a container engine; test_containers.py checks it",
    ("docs/operators/install.md", "sh", "docker build"): "needs a container engine; test_containers.py checks it",
    ("docs/operators/backup.md", "sh", "sudo install"): "changes the machine; test_systemd.py tries the units",
    ("docs/operators/backup.md", "sh", "sudo systemctl"): "changes the machine; upgrade.md has it without systemd",
    ("docs/operators/backup.md", "sh", "docker run"): "needs a container engine",
    ("docs/operators/keys.md", "sh", "sudo install"): "changes the machine",
    ("docs/operators/operations.md", "sh", "systemctl status"): "needs systemd",
    ("docs/operators/postgresql.md", "sh", "sudo -u postgres"): "changes the machine",
    ("docs/operators/upgrade.md", "sh", "for unit in"): "changes the machine; test_systemd.py tries the units",
    ("docs/operators/upgrade.md", "sh", "sudo mv"): "changes the machine; the block before it does the same",
    ("docs/operators/upgrade.md", "sh", "sudo sh"): "needs a container engine",
    ("docs/operators/kubernetes.md", "sh", ""): "needs a cluster; test_kubernetes.py checks the manifests",
    ("docs/operators/mail.md", "sh", "sudo install"): "asks for a secret; test_how_to_sign_in.py runs the same command",
    ("docs/operators/mail.md", "ini", "WORKHOOK_SMTP_URL"): "names a mail server; tests/mail has its own",
    ("docs/operators/mail.md", "sh", "workhook mail test"): "tests/mail/test_mailer.py tries it",
    ("docs/operators/many-machines.md", "yaml", ""): "test_failover.py has a cluster with these settings",
    ("docs/operators/many-machines.md", "text", "listen primary"): "test_failover.py has a proxy with these settings",
    ("docs/operators/backup.md", "text", "PATH="): "a crontab, whose command the other blocks of the page run",
    (
        "docs/operators/monitoring.md",
        "sh",
        "sudo install",
    ): "changes the machine; test_how_to_monitoring.py has a token",
    ("docs/operators/monitoring.md", "sh", "sudo python3"): "changes the machine; the tests have the packages",
    ("docs/operators/monitoring.md", "sh", "pipx install"): "needs an index; the tests have the packages",
    ("docs/operators/monitoring.md", "ini", "OTEL_"): "needs a collector; test_traces.py has one",
    ("docs/operators/proxy.md", "nginx", ""): "test_proxies.py runs the file that it is part of",
    ("docs/operators/cli.md", "text", ""): "test_cli_reference.py compares the whole page",
    ("docs/team/import.md", "sh", "gh issue list"): "needs a GitHub account; test_import_github.py has its output",
    (
        "docs/team/e-invoices.md",
        "sh",
        "pdfdetach",
    ): "the tests have no pdfdetach; test_einvoices.py reads the attachment",
}


_FENCED = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.S | re.M)


def every_block(page: str) -> list[tuple[str, str]]:
    """Return the fenced blocks of a page in order, as language ("" if none is named) and text.

    `page` is the path from the root.
    """
    written = (ROOT / page).read_text(encoding="utf-8")
    return [(found["language"], dedent(found["text"])) for found in _FENCED.finditer(written)]


def reason_not_run(page: str, language: str, text: str) -> str:
    """Return the reason why no test runs the block, or an empty string if one does."""
    named = (
        why
        for (where, tongue, beginning), why in NOT_RUN.items()
        if (where == page or (where.endswith("/") and page.startswith(where)))
        and tongue == language
        and text.startswith(beginning)
    )
    return next(named, "")


def blocks(page: str, language: str = "sh") -> list[str]:
    """Return the page's blocks of a language that a test must run, in order.

    Unpack the result into names, so that an added block fails the page's test.
    """
    return [
        text for tongue, text in every_block(page) if tongue == language and not reason_not_run(page, language, text)
    ]


def split_prose_and_code(page: str) -> list[tuple[str, str]]:
    """Return prose and `sh` blocks in order, as `("text", …)` and `("sh", …)`."""
    pieces = re.split(r"^```sh\b[^\n]*\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), flags=re.S | re.M)
    return [("sh" if at % 2 else "text", piece) for at, piece in enumerate(pieces)]


def parse_json_output(said: str) -> Any:
    """Return the JSON in the output of curl, which also prints its progress."""
    begins = min(at for at in (said.find("{"), said.find("[{")) if at >= 0)
    found, _ = json.JSONDecoder().raw_decode(said, begins)
    return found


def checkout(folder: Path) -> Path:
    """Return a folder that looks like a checkout after `make install`, without data."""
    (folder / ".venv").mkdir(parents=True)
    (folder / ".venv" / "bin").symlink_to(forge().commands)
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


def new_machine(folder: Path) -> dict[str, str]:
    """Return an environment without any configuration of Git, Workhook or the user who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "WORKHOOK_"))}
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    here = {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    commands = f"{forge().commands}:{Path(sys.executable).parent}"
    return {**kept, **here, "PATH": f"{commands}:{os.environ['PATH']}"}


class Program:
    """A process whose output is read line by line."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input: IO[str] = self.process.stdin
        self._output: IO[str] = self.process.stdout
        self._reader = Thread(target=lambda: self.lines.extend(iter(self._output.readline, "")), daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str, start: int = 0) -> str:
        """Return the first line from `start` on that matches."""

        def look() -> str | None:
            ended = self.process.poll() is not None
            if ended:
                self._reader.join(30)  # its last output is read after it has ended
            found = next((line for line in self.lines[start:] if re.search(pattern, line)), None)
            assert found or not ended, "".join(self.lines)
            return found

        return until(look) or ""

    def stop(self) -> None:
        """Stop the process with SIGTERM, because children of a shell that runs in the background ignore SIGINT."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.input.close()
        self.process.wait(30)
        self._reader.join(30)
        self._output.close()


class Shell(Program):
    """The reader's shell, which keeps variables from one block to the next. A failing command fails the test."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__(["bash", "-e"], folder, environment)
        self.environment = environment
        self._script = folder / "block.sh"

    def run(self, block: str) -> str:
        """Run a block and return its output."""
        start = len(self.lines)
        self._script.write_text(block, encoding="utf-8")
        # The block is sourced from a file, so that its commands cannot read the rest of it from standard input.
        self.input.write(f'. "{self._script}" </dev/null; printf "\\n%s\\n" "{END}"\n')
        self.input.flush()
        self.wait_for(f"^{re.escape(END)}", start)
        return "".join(self.lines[start:]).partition(END)[0]
