"""The forge, `python -m tests.harness.forging FD LISTENING_FD`, which imports Workhook once and forks a process on
request.

Tests (`forge.py`) and shells (`asking_forge.py`) connect to the second socket. The forge ends once the other end of the
first socket is closed.
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
    """Import all modules, including those that commands import lazily."""
    for module in pkgutil.walk_packages(workhook.__path__, "workhook."):
        if not module.name.endswith("__main__") and ".migrations." not in module.name:  # these are scripts
            importlib.import_module(module.name)
    for name in LOADED_LATE:
        with contextlib.suppress(ImportError):  # uvloop is not available on every system
            importlib.import_module(name)
    Compiler.inspect = staticmethod(statement_rules.refuse)
    slow.TIMEOUT_S = 15.0  # a search on a busy machine is not a slow search


def compile_everything() -> None:
    """Compile module-level statements, so that forked processes need not."""
    compilers = (Compiler(dialects.SQLITE, dialects.sqlite_value), Compiler(dialects.postgresql()))
    for _, statement in statement_rules.statements():
        assert isinstance(statement, Executable)
        for compiler in compilers:
            compiler(statement)


class Forging:
    """Waits for requests and for the end of forked processes."""

    def __init__(self, control: socket.socket, listening: socket.socket) -> None:
        self._control, self._listening = control, listening
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, self._end)
        self._selector.register(listening, selectors.EVENT_READ, self._asked)
        self._lines: dict[int, tuple[int, socket.socket]] = {}  # the pidfd and the client connection of each process
        self._over = False

    def serve(self) -> dict[str, Any] | None:
        """Handle requests. Returns the request in each child, and None in this process at the end."""
        while not self._over:
            for key, _ in self._selector.select():
                wanted: dict[str, Any] | None = key.data()
                if wanted is not None:
                    return wanted
        return None

    def _asked(self) -> dict[str, Any] | None:
        """Fork a process with the client's streams. Its pid and status are reported on the same connection."""
        if self._over:  # nothing would end a process forked now
            return None
        line = self._listening.accept()[0]
        _, streams, _, _ = socket.recv_fds(line, 1, 3)
        with line.makefile() as said:
            request = said.readline()
        if not request.endswith("\n"):  # the client has ended
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
            with contextlib.suppress(BrokenPipeError):  # the client has ended
                line.sendall(b"%d\n" % pid)
        for descriptor in streams:
            os.close(descriptor)
        return wanted if pid == 0 else None

    def _forget(self) -> None:
        """Close the parent's resources in a child."""
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
        with line, contextlib.suppress(OSError):  # the client has ended
            line.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))

    def _left(self, pid: int) -> None:
        """Kill the process because its client has ended."""
        if pid in self._lines:
            self._selector.unregister(self._lines[pid][1])
            os.kill(pid, signal.SIGKILL)

    def _end(self) -> None:
        for pid in self._lines:
            os.kill(pid, signal.SIGKILL)
        self._over = True


def _leave(status: int) -> None:
    """Exit like the interpreter, but without unloading modules, which would copy the memory pages shared by all
    forks."""
    threading._shutdown()  # type: ignore[attr-defined]  # not exported under another name
    atexit._run_exitfuncs()
    gc.collect()  # reports open files and coroutines that were never awaited
    with contextlib.suppress(OSError):  # the reader is gone; the interpreter reports it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the tests, which end this process
    gc.disable()  # modules are not garbage
    import_everything()
    compile_everything()
    alone = len(os.listdir("/proc/self/task")) == threading.active_count() == 1
    assert alone, "an import has started a thread, which no child would have"
    gc.collect()
    gc.freeze()  # or collections in children would copy the shared memory
    gc.enable()
    control, listening = (socket.socket(fileno=int(each)) for each in sys.argv[1:])
    wanted = Forging(control, listening).serve()
    if wanted is None:
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)  # even if the tests run in the background
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
