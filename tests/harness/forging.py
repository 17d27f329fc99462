"""`python -m tests.harness.forging FD LISTENING_FD`: imports Workhook once, then forks a process of it whenever asked.

Tests (`forge.py`) and shells (`asking_forge.py`) connect to the second socket. When nobody holds the other end of the
first any more, it ends.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import threading
from typing import Any

from sqlalchemy.sql.expression import Executable

import workhook
from scripts import statement_rules
from workhook.storage import dialects, slow
from workhook.storage.statements import Compiler

LOADED_LATE = ("uvloop", "uvicorn.lifespan.off", "click._textwrap", "jinja2", "jinja2.ext", "argon2")  # of others


def import_everything() -> None:
    """Also what a command imports only when it needs it."""
    for module in pkgutil.walk_packages(workhook.__path__, "workhook."):
        if not module.name.endswith("__main__") and ".migrations." not in module.name:  # those are scripts
            importlib.import_module(module.name)
    for name in LOADED_LATE:
        with contextlib.suppress(ImportError):  # uvloop is not on every system
            importlib.import_module(name)
    Compiler.inspect = staticmethod(statement_rules.refuse)
    slow.TIMEOUT_S = 15.0  # a busy machine is no slow search


def compile_everything() -> None:
    """So that no process compiles for itself what stands at the head of a module."""
    compilers = (Compiler(dialects.SQLITE, dialects.sqlite_value), Compiler(dialects.postgresql()))
    for _, statement in statement_rules.statements():
        assert isinstance(statement, Executable)
        for compiler in compilers:
            compiler(statement)


class Forging:
    """Waits for requests and for the ends of what it has forked."""

    def __init__(self, control: socket.socket, listening: socket.socket) -> None:
        self._control, self._listening = control, listening
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, self._end)
        self._selector.register(listening, selectors.EVENT_READ, self._asked)
        self._lines: dict[int, tuple[int, socket.socket]] = {}  # by process: its file descriptor, and who asked for it
        self._over = False

    def serve(self) -> dict[str, Any] | None:
        """Returns in each child, with what it was asked for, and here at the end."""
        while not self._over:
            for key, _ in self._selector.select():
                wanted: dict[str, Any] | None = key.data()
                if wanted is not None:
                    return wanted
        return None

    def _asked(self) -> dict[str, Any] | None:
        """Whoever connects gives its streams, and is told on that connection."""
        if self._over:  # nobody would end what is forked now
            return None
        line = self._listening.accept()[0]
        _, streams, _, _ = socket.recv_fds(line, 1, 3)
        with line.makefile() as said:
            request = said.readline()
        if not request.endswith("\n"):  # who connected has ended
            line.close()
            for descriptor in streams:
                os.close(descriptor)
            return None
        wanted: dict[str, Any] = json.loads(request)
        pid = os.fork()
        if pid == 0:
            line.close()
            self._forget()
            for number, descriptor in enumerate(streams):
                os.dup2(descriptor, number)
        else:
            watched = os.pidfd_open(pid)
            self._lines[pid] = (watched, line)
            self._selector.register(watched, selectors.EVENT_READ, functools.partial(self._ended, pid))
            self._selector.register(line, selectors.EVENT_READ, functools.partial(self._left, pid))
            with contextlib.suppress(BrokenPipeError):  # nobody wants to know any more
                line.sendall(b"%d\n" % pid)
        for descriptor in streams:
            os.close(descriptor)
        return wanted if pid == 0 else None

    def _forget(self) -> None:
        """In a child: what belongs to its parent."""
        self._selector.close()
        self._control.close()
        self._listening.close()
        for watched, line in self._lines.values():
            os.close(watched)
            line.close()

    def _ended(self, pid: int) -> None:
        if pid not in self._lines:
            return
        watched, line = self._lines.pop(pid)
        self._selector.unregister(watched)
        os.close(watched)
        if line in self._selector.get_map():
            self._selector.unregister(line)
        _, status = os.waitpid(pid, 0)
        with line, contextlib.suppress(OSError):  # nobody wants to know any more
            line.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))

    def _left(self, pid: int) -> None:
        """Who asked for the process has ended, and takes it along."""
        if pid in self._lines:
            self._selector.unregister(self._lines[pid][1])
            os.kill(pid, signal.SIGKILL)

    def _end(self) -> None:
        for pid in self._lines:
            os.kill(pid, signal.SIGKILL)
        self._over = True


def _leave(status: int) -> None:
    """End as the interpreter does, but for the modules: to take them apart copies the pages that all forks share."""
    threading._shutdown()  # type: ignore[attr-defined]  # it has no other name
    atexit._run_exitfuncs()
    gc.collect()  # what was left open or never awaited says so
    with contextlib.suppress(OSError):  # nobody reads any more: the interpreter knows what to say
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, and they end this
    gc.disable()  # modules are no garbage
    import_everything()
    compile_everything()
    alone = len(os.listdir("/proc/self/task")) == threading.active_count() == 1
    assert alone, "an import has started a thread, which no child would have"
    gc.collect()
    gc.freeze()  # or the children's collections copy what they share
    gc.enable()
    control, listening = (socket.socket(fileno=int(each)) for each in sys.argv[1:])
    wanted = Forging(control, listening).serve()
    if wanted is None:
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background
    os.environ.clear()
    os.environ.update(wanted["environment"])
    os.chdir(wanted["cwd"])
    sys.argv[1:] = wanted["words"]
    try:
        runpy.run_module("workhook", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            _leave(end.code or 0)
        raise


if __name__ == "__main__":
    main()
