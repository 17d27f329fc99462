"""A webhook receiver that runs in Node."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from typing import Any

from tests.clients import octokit
from tests.clients.support import SECRET

WAIT_S = 60


class NodeReceiver:
    """A script from `tests/node` in a process. `next()` returns the next event with a valid signature."""

    def __init__(self, script: str) -> None:
        self._process = subprocess.Popen(
            octokit.command(script), env={**os.environ, "SECRET": SECRET}, stdout=subprocess.PIPE, text=True
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.url = f"http://127.0.0.1:{int(self._lines.get(timeout=WAIT_S))}"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def next(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(self._lines.get(timeout=WAIT_S))
        return event

    def close(self) -> None:
        self._process.kill()
        self._process.wait(WAIT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
