"""A command that runs until interrupted, and its output."""

from __future__ import annotations

import json
import signal
import threading
from typing import Any

from tests.cli.cli_kit import Cli
from tests.harness import forge
from tests.harness.waiting import until


class Running:
    """A running command. `lines` is its output so far."""

    def __init__(self, cli: Cli, *words: str) -> None:
        self.process, self._output = forge.start(words, cli.environment)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with self._output:
            self.lines.extend(iter(self._output.readline, ""))

    def wait_for(self, number: int) -> list[str]:
        """Return the first `number` lines once they are there."""
        until(lambda: len(self.lines) >= number)
        return self.lines[:number]

    def rows(self, number: int) -> list[Any]:
        return [json.loads(each) for each in self.wait_for(number)]

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        status = self.process.wait(60)
        self._reader.join(60)
        assert "Traceback" not in "".join(self.lines)
        return status
