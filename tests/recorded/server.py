"""A server of the recorded tree in a separate process, and a receiver for its webhooks.

This module must not import `workhook`, because the tree may be of an older commit than this file.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SETTINGS = {
    "DELIVERY_ALLOW_NETWORKS": "127.0.0.0/8",
    "API_RATE_LIMIT": "1000000",
    "HOOKS_PER_EVENT": "0",
    "LOG_LEVEL": "error",
}
STOP_S = 60


class Tree:
    """The source tree in `folder` with its own data folder, on SQLite."""

    def __init__(self, folder: Path, data: Path) -> None:
        own = folder / ".venv" / "bin" / "python"
        self.python = str(own if own.exists() else sys.executable)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WORKHOOK_")}
        self.environment = {
            **kept,
            **{f"WORKHOOK_{name}": value for name, value in SETTINGS.items()},
            "WORKHOOK_DATA": str(data),
            "PYTHONPATH": str(folder.resolve() / "src"),
        }

    def run(self, *arguments: str) -> Any:
        """Run a command and return its output with `--json`."""
        command = (self.python, "-m", "workhook", *arguments, "--json")
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"workhook {arguments[0]}: {done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Yield the address of the server, which is stopped at the end of the block."""
        command = (self.python, "-m", "workhook", "serve", "--port", "0")
        with subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("workhook: listening on "):
                    # Keep reading, so that the server never blocks on a full pipe.
                    threading.Thread(target=process.stdout.read, daemon=True).start()
                    break
            else:
                raise RuntimeError("the server did not start")
            try:
                yield line.split()[-1]
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(STOP_S)


class _Receiver(BaseHTTPRequestHandler):
    """Answers every POST with 200."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise a response in two pieces takes 40 ms

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response_only(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *arguments: Any) -> None:
        """Log nothing."""


@contextmanager
def receiving() -> Iterator[str]:
    """Yield the address of a receiver."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Receiver) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
