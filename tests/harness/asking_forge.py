"""The command `workhook` for shells, which has its process forked by the forge that listens next to this file.

The installed file starts with the interpreter's name (`forge.Forge`). Long-running commands and commands on a terminal
run the installed Workhook instead.
"""

import json
import os
import signal
import socket
import sys

_HERE = os.path.dirname(os.path.realpath(__file__))
_INSTALLED = os.path.join(os.path.dirname(sys.executable), "workhook")


def _forked() -> int:
    """Return the exit status of a forked process with this process's streams, arguments, environment and working
    directory."""
    wanted = {"words": sys.argv[1:], "environment": dict(os.environ), "cwd": os.getcwd()}
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(os.path.join(_HERE, "forge"))
        socket.send_fds(line, [b"!"], [0, 1, 2])
        line.sendall(json.dumps(wanted).encode() + b"\n")
        with line.makefile() as said:
            pid = int(said.readline())
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda received, _: os.kill(pid, received))
            return int(said.readline())


if __name__ == "__main__":
    if sys.argv[1:2] in (["serve"], ["worker"]) or any(os.isatty(each) for each in (0, 1, 2)):
        os.execv(_INSTALLED, [_INSTALLED, *sys.argv[1:]])
    status = _forked()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)
