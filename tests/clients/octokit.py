"""Helpers that run the scripts in `tests/node` with the Node of the Python wheel."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Sequence

from tests.harness.receiver import Received
from tests.node_tools import NODE_FOLDER, ensure_node_modules, node

TIMEOUT_S = 120


def command(script: str) -> list[str]:
    """Return the command that runs a script. Missing packages are installed."""
    ensure_node_modules()
    return [str(node()), str(NODE_FOLDER / script)]


def run(script: str, *, input_text: str = "", **settings: str) -> str:
    """Run a script and return its output.

    If the script fails, the test fails with the script's message. `settings` become environment variables.
    """
    done = subprocess.run(
        command(script),
        input=input_text,
        env={**os.environ, **{name.upper(): value for name, value in settings.items()}},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{script} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


def run_text(module: str) -> str:
    """Run a module given as text and return its output. It can import what the scripts can."""
    ensure_node_modules()
    done = subprocess.run(
        [str(node()), "--input-type=module"],
        cwd=NODE_FOLDER,
        input=module,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{module}\nfailed:\n{done.stdout}{done.stderr}"
    return done.stdout


def verified(received: Sequence[Received], secret: str) -> list[bool]:
    """Return, for each request, whether Octokit accepts its `X-Hub-Signature-256`."""
    lines = [
        json.dumps(
            {
                "secret": secret,
                "body": base64.b64encode(each.body).decode(),
                "signature": each.headers.get("x-hub-signature-256", "sha256=none"),
            }
        )
        for each in received
    ]
    return [line == "true" for line in run("verify.mjs", input_text="\n".join(lines)).split()]
