"""The README's first webhook, run as it is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from tests.harness.server import Server
from tests.harness.waiting import until

ROOT = Path(__file__).parents[2]


def test_the_first_webhook_arrives(new_server: Callable[..., Server]) -> None:
    server = new_server()
    printed = re.search(r"whp_\w+", server.log())
    assert printed, server.log()
    receiver = subprocess.Popen(
        [sys.executable, ROOT / "examples" / "receiver.py", "0"],
        env={**os.environ, "SECRET": "s3cret"},
        stdout=subprocess.PIPE,
        text=True,
    )
    lines: list[str] = []
    assert receiver.stdout is not None
    reader = Thread(target=lambda: lines.extend(iter(receiver.stdout.readline, "")), daemon=True)  # type: ignore[union-attr]  # checked above
    reader.start()
    try:
        address = until(lambda: next((line.split()[-1] for line in lines if line.startswith("waiting")), ""))
        block = re.search(r"```sh first-webhook\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
        assert block
        script = block[1].replace("http://127.0.0.1:8000", server.url).replace("http://127.0.0.1:9000", address)
        environment = {**os.environ, "TOKEN": printed[0]}
        done = subprocess.run(["bash", "-ec", script], env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        until(lambda: "push refs/heads/main\n" in lines)
        assert "ping \n" in lines
    finally:
        receiver.kill()
        receiver.wait()
        reader.join()
        receiver.stdout.close()
