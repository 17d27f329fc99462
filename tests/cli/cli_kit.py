"""The `workhook` command, run as scripts run it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.harness import forge
from tests.harness.options import command_of, commands, misnamed


class Cli:
    """Runs `workhook` commands with a data folder of its own."""

    def __init__(self, data: Path, settings: dict[str, str]) -> None:
        self.data = data
        self.settings = {**settings, "data": str(data)}
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("WORKHOOK_")}
        self.environment |= {f"WORKHOOK_{name.upper()}": value for name, value in settings.items()}
        self.environment["WORKHOOK_DATA"] = str(data)

    def run(self, *words: str, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return forge.run(words, {**self.environment, **environment}, given=given)

    def json(self, *words: str, given: str = "") -> Any:
        """Return the JSON output of a command that must succeed."""
        done = self.run(*words, "--json", given=given)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") == 1
        return json.loads(done.stdout)

    def text(self, *words: str) -> str:
        done = self.run(*words)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def refused(self, *words: str, status: int = 1, **environment: str) -> str:
        """Return standard error of a command that must fail with `status` and print nothing to standard output."""
        done = self.run(*words, **environment)
        assert (done.returncode, done.stdout) == (status, ""), done.stderr
        assert "Traceback" not in done.stderr
        assert misnamed(done.stderr, commands()[command_of(words)]) == []
        return done.stderr

    def setup(self, *words: str) -> Any:
        return self.json("setup", "--organization", "acme", "--owner", "octo", "--email", "octo@example.com", *words)
