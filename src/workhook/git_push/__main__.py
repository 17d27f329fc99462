"""`python -m workhook.git_push post-receive | send GIT_DIR`: the hook's entry point, without the CLI's imports."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from workhook.core.text import guard_streams


def main(arguments: list[str]) -> int:
    guard_streams()
    match arguments:
        case ["post-receive"]:
            from workhook.git_push.hook import post_receive

            lines = sys.stdin.buffer.read().decode("utf-8", "surrogateescape").split("\n")
            return post_receive(Path(os.environ.get("GIT_DIR", ".")), lines)
        case ["send", git_dir]:
            from workhook.git_push.sender import run_detached

            run_detached(Path(git_dir))
            return 0
        case ["check"]:
            return 0
        case _:
            print("usage: post-receive | send GIT_DIR | check", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
