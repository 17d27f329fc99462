"""A server that is not forked, with its own command line and environment."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

from tests.harness.server import START_TIMEOUT_S, Server


class OwnProcess(Server):
    """A server or worker. Subclasses change how it starts."""

    def command_line(self) -> Sequence[str]:
        return [sys.executable, "-m", "workhook", *self.command]

    def surroundings(self) -> Mapping[str, str]:
        return self.environment()

    def start(self) -> Server:
        self.running = False
        process = subprocess.Popen(
            self.command_line(),
            env=self.surroundings(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.process = process  # type: ignore[assignment]  # implements what is used of a forged process
        assert process.stdout is not None
        ready = threading.Event()
        threading.Thread(target=self._read, args=(process.stdout, ready), daemon=True).start()
        assert ready.wait(START_TIMEOUT_S), self.log()
        assert self.running, self.log()
        return self
