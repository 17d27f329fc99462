"""The `workhook` command. Small groups of commands share a file."""

from __future__ import annotations

import gc
import sys

from workhook.core.text import guard_streams


def main() -> None:
    guard_streams()
    if sys.argv[1:3] == ["git-hook", "post-receive"]:
        from workhook.git_push.__main__ import main as git_push  # a push waits for this, so nothing else is imported

        sys.exit(git_push(["post-receive"]))
    # With default thresholds, a sixth of the startup time is spent collecting hardly any garbage.
    gc.set_threshold(500_000, 20, 20)
    from workhook.cli.lazy_imports import lazy_imports

    with lazy_imports():
        from workhook.cli.app import app
    app(prog_name="workhook")
