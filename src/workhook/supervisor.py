"""`workhook serve --workers N`: processes that share a listening socket, and their supervisor.

Each process is a server on the same database, connected to the supervisor by a socket pair. Over it the process
reports that it is ready, and fetches the metrics of all processes. When the supervisor ends, the processes stop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import structlog
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from workhook.core.errors import OperatorError, Unavailable

_JOINED = "_WORKHOOK_SUPERVISED"  # environment variable with a process's number and its two file descriptors
METRICS_S = 5.0  # how long a process may take to report its metrics
PAUSES_S = (0.5, 30.0)  # before a process is restarted; doubled each time, up to the second value
SETTLED_S = 60.0  # after this time, an exit is unrelated to the previous one
GRACE_S = 10.0  # added to the configured time before a process is killed

_READY, _ASK, _TELL = b"R", b"A", b"T"
_LENGTH = struct.Struct("!cI")
_UNTOLD = "The processes did not report their metrics in time."

log = structlog.get_logger(__name__)


async def _send(writer: asyncio.StreamWriter, kind: bytes, data: bytes = b"") -> None:
    writer.write(_LENGTH.pack(kind, len(data)) + data)
    await writer.drain()


async def _receive(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Receive a message. Raises `EOFError` if the other side has closed, and `OSError` if the connection broke."""
    kind, length = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return kind, await reader.readexactly(length)


async def _told_or_nothing(telling: Awaitable[bytes]) -> bytes:
    """Return the result, or nothing if it fails, so that the requesting process always gets a response."""
    try:
        return await telling
    except Exception:
        log.exception("metrics_failed")
        return b""


# --- in each process --------------------------------------------------------------------------------------------------


class Supervised:
    """A process's connection to the supervisor. `listening` is the shared socket."""

    def __init__(self, listening: socket.socket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.listening = listening
        self._reader, self._writer = reader, writer
        self._asked: list[asyncio.Future[bytes]] = []
        self._task = asyncio.create_task(self._listen(), name="supervised")

    @classmethod
    async def join(cls) -> Supervised | None:
        """Return this process's connection, or None if it was not started by a supervisor."""
        if (joined := os.environ.pop(_JOINED, None)) is None:
            return None
        number, listening, line = map(int, joined.split(":"))
        structlog.contextvars.bind_contextvars(process=number)
        reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=line))
        return cls(socket.socket(fileno=listening), reader, writer)

    async def report_ready(self) -> None:
        await _send(self._writer, _READY)

    async def metrics(self) -> bytes:
        """Return the metrics of all processes, labeled with their numbers. Raises `Unavailable`."""
        asked: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked.append(asked)
        try:
            async with asyncio.timeout(2 * METRICS_S):
                await _send(self._writer, _ASK)
                found = await asked
        except (OSError, TimeoutError) as error:
            raise Unavailable(_UNTOLD) from error
        if not found:
            raise Unavailable(_UNTOLD)
        return found

    async def _listen(self) -> None:
        try:
            while True:
                kind, data = await _receive(self._reader)
                if kind == _ASK:
                    await _send(self._writer, _TELL, await _told_or_nothing(asyncio.to_thread(generate_latest)))
                    continue
                self._asked = [each for each in self._asked if not each.done()]  # drop those that gave up
                if self._asked:
                    self._asked.pop(0).set_result(data)
        except (EOFError, OSError):
            log.warning("supervisor_exited")
            signal.raise_signal(signal.SIGTERM)  # as the supervisor would have sent


# --- in the supervisor ------------------------------------------------------------------------------------------------


class _Child:
    def __init__(
        self,
        number: int,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ready: asyncio.Event,
        gather: Callable[[], Awaitable[bytes]],
    ) -> None:
        self.number, self.process = number, process
        self._ready, self._is_serving = ready, False
        self._reader, self._writer, self._gather = reader, writer, gather
        self._told: asyncio.Queue[bytes] = asyncio.Queue()
        self._answers: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        """Read messages from the process until it ends, and respond to its requests."""
        with suppress(EOFError, OSError):
            while True:
                kind, data = await _receive(self._reader)
                if kind == _READY:
                    self._is_serving = True
                    self._ready.set()
                elif kind == _TELL:
                    self._told.put_nowait(data)
                else:
                    answer = asyncio.create_task(self._answer())
                    self._answers.add(answer)
                    answer.add_done_callback(self._answers.discard)
        self._is_serving = False
        self._told.put_nowait(b"")  # no more messages follow
        self._writer.close()

    async def _answer(self) -> None:
        with suppress(OSError):  # it has ended in the meantime
            await _send(self._writer, _TELL, await _told_or_nothing(self._gather()))

    async def metrics(self) -> bytes | None:
        """Return the process's metrics, or None if it is not serving or is too slow. Calls must not overlap."""
        if not self._is_serving:
            return None
        while not self._told.empty():  # late responses to requests that gave up
            self._told.get_nowait()
        try:
            async with asyncio.timeout(METRICS_S):
                await _send(self._writer, _ASK)
                return await self._told.get() or None
        except (OSError, TimeoutError) as error:
            log.warning("metrics_missing", process=self.number, error=str(error))
            return None


class Supervisor:
    """The parent of `count` processes of the current command. It restarts those that exit on their own."""

    def __init__(self, count: int, listening: socket.socket, *, stop_s: float) -> None:
        """Create a supervisor. `stop_s` is how long a process may take to stop."""
        self._listening, self._stop_s = listening, stop_s
        self._children: dict[int, _Child] = {}
        # Set once a process has been ready, even if it has ended since.
        self._ready = {number: asyncio.Event() for number in range(1, count + 1)}
        self._stopping = asyncio.Event()
        self._gathering: asyncio.Task[bytes] | None = None

    def stop(self) -> None:
        """Tell every process to stop. A second call skips the delay for load balancers."""
        self._stopping.set()
        self._listening.close()  # each process has its own copy; the port closes with the last of them
        for each in self._children.values():
            with suppress(ProcessLookupError):
                each.process.send_signal(signal.SIGTERM)

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Run until `stop` is called; call `ready` once all processes serve. Raises `OperatorError` if one fails to."""
        keeping = [asyncio.create_task(self._keep(number), name=f"process-{number}") for number in self._ready]
        waiting: asyncio.Future[Any] = asyncio.gather(*(each.wait() for each in self._ready.values()))
        try:
            await asyncio.wait([*keeping, waiting], return_when=asyncio.FIRST_COMPLETED)
            if waiting.done() and not self._stopping.is_set():
                await ready()
            await asyncio.wait(keeping, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            waiting.cancel()
            self.stop()
            found = await asyncio.gather(*keeping, return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException):
                raise each

    async def _keep(self, number: int) -> None:
        loop, pause_s = asyncio.get_running_loop(), PAUSES_S[0]
        while not self._stopping.is_set():
            began_s = loop.time()
            try:
                status: int | str = await self._until_ended(await self._start(number))
            except OSError as error:  # no memory or no descriptors: the others continue
                if not self._ready[number].is_set():
                    raise
                status = str(error)
            if self._stopping.is_set():
                return
            if not self._ready[number].is_set():
                message = "a process of this server ended before it was ready."
                raise OperatorError(message, "Check its log messages above.")
            if loop.time() - began_s > SETTLED_S:
                pause_s = PAUSES_S[0]
            log.error("process_exited", process=number, status=status, retry_in_s=pause_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()
            pause_s = min(pause_s * 2, PAUSES_S[1])

    async def _start(self, number: int) -> _Child:
        line, theirs = socket.socketpair()
        with theirs, self._listening.dup() as listening:
            given = (listening.fileno(), theirs.fileno())
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-P", "-m", "workhook", *sys.argv[1:],
                    env={**os.environ, _JOINED: ":".join(map(str, (number, *given)))},
                    pass_fds=given,
                    start_new_session=True,  # terminal signals such as Ctrl-C reach it only through the supervisor
                )  # fmt: skip
            except BaseException:
                line.close()
                raise
        reader, writer = await asyncio.open_connection(sock=line)
        child = self._children[number] = _Child(number, process, reader, writer, self._ready[number], self._metrics)
        if self._stopping.is_set():  # it did not exist yet when the others were stopped
            process.terminate()
        return child

    async def _until_ended(self, child: _Child) -> int:
        listening = asyncio.create_task(child.listen())
        ended = asyncio.create_task(child.process.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([ended, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not ended.done():
            _, late = await asyncio.wait([ended], timeout=self._stop_s + GRACE_S)
            if late:
                log.error("process_killed", process=child.number, error="it did not stop in time")
                child.process.kill()
        status = await ended
        await listening
        return status

    async def _metrics(self) -> bytes:
        """Return the metrics of all processes. Concurrent requests share one result."""
        if self._gathering is None or self._gathering.done():
            self._gathering = asyncio.create_task(self._gather(), name="metrics")
        return await asyncio.shield(self._gathering)

    async def _gather(self) -> bytes:
        children = list(self._children.values())
        collected = await asyncio.gather(*(each.metrics() for each in children))
        texts = {each.number: text for each, text in zip(children, collected, strict=True) if text is not None}
        return await asyncio.to_thread(merged, texts)


class _Merged(dict[str, Metric], Collector):
    def collect(self) -> Iterable[Metric]:
        return self.values()


def merged(texts: Mapping[int, bytes]) -> bytes:
    """Merge the metrics of several processes into one text, labeling each sample with its process number."""
    from prometheus_client.parser import text_string_to_metric_families  # not needed by a single process

    families = _Merged()
    for number, text in texts.items():
        for family in text_string_to_metric_families(text.decode()):
            known = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            known.samples += [
                Sample(each.name, {**each.labels, "process": str(number)}, each.value) for each in family.samples
            ]
    return generate_latest(families)
