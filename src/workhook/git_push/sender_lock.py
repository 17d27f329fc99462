"""One process sends at a time, and a push that comes meanwhile is not forgotten.

The mark (a file) is the truth, the pipe only shortens a pause. A new process sets the mark, then tries the lock, then
knocks. The holder removes the mark before it reads the spool, and looks for a new mark after it has unlocked. So a push
is not lost between "nothing left" and the unlocking.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
from collections.abc import Iterator

from workhook.git_push.folder import Folder


class SenderLock:
    """The lock, the mark and the pipe of one `workhook` folder."""

    def __init__(self, folder: Folder) -> None:
        self._lock = folder.root / "lock"
        self._mark = folder.root / "again"
        self._pipe = folder.root / "knock"

    def ask(self) -> None:
        self._mark.touch(mode=0o600)

    def asked(self) -> bool:
        return self._mark.exists()

    def clear(self) -> None:
        self._mark.unlink(missing_ok=True)

    @contextlib.contextmanager
    def held(self) -> Iterator[bool]:
        """Holds the lock, or yields False at once. The kernel unlocks when the process dies, however it dies."""
        target = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(target, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            os.ftruncate(target, 0)
            os.write(target, str(os.getpid()).encode())  # for people; the lock is what counts
            yield True
        finally:
            os.close(target)

    def knock(self) -> None:
        """Wake the holder if it is in a pause; if not, or without a pipe, it finds the mark by itself."""
        with contextlib.suppress(OSError):
            target = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(target, b".")
            finally:
                os.close(target)

    def pause(self, pause_s: float) -> bool:
        """Wait, but no longer than until somebody asks; whether somebody has. For the holder only."""
        with self._open_pipe() as readers:
            if not self.asked():
                select.select(readers, [], [], pause_s)
        return self.asked()

    @contextlib.contextmanager
    def _open_pipe(self) -> Iterator[list[int]]:
        """Opened for both directions, so that it does not end when one who knocked goes. Empty where no pipe can be."""
        try:
            with contextlib.suppress(FileExistsError):
                os.mkfifo(self._pipe, 0o600)
            target = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK)
        except OSError:
            yield []
            return
        try:
            yield [target]
        finally:
            os.close(target)
