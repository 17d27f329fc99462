"""Takes due messages, composes them and sends them over a few connections.

No transaction is open while a message is composed or sent. If the process dies in between, the lease expires and the
message is sent again with the same Message-ID, unless its outcome was recorded.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable

import structlog

from workhook.core.errors import Problem
from workhook.core.mail_address import SmtpServer
from workhook.delivery import metrics
from workhook.delivery.mail import queue
from workhook.delivery.mail.queue import MailMessage
from workhook.delivery.mail.smtp import TIMEOUT_S, MailOutcome, Outgoing, SmtpConnection
from workhook.identity.mail.recipients import explain
from workhook.storage import Database

CONNECTIONS = 4
POLL_S = 2.0
LOOK_S = 15.0  # between backlog queries for the metrics
WORK_S = 240.0  # per message; less than its lease
PAUSE_MAX_S = 60.0

log = structlog.get_logger(__name__)

Compose = Callable[[MailMessage], Awaitable[Outgoing | None]]
"""Composes a message from the current data. Returns None if it is obsolete or has no recipient."""


class Mailer:
    def __init__(
        self, database: Database, server: SmtpServer, compose: Compose, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._database = database
        self._compose = compose
        self._idle = [SmtpConnection(server, timeout_s) for _ in range(CONNECTIONS)]
        self._under_way: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []
        self._freed = asyncio.Event()
        self._trouble = 0  # failed attempts since the server last worked

    def start(self) -> None:
        self._loops = [
            asyncio.create_task(self._send_due(), name="mail"),
            asyncio.create_task(self._look(), name="mail-backlog"),
        ]

    async def stop(self, drain_s: float) -> None:
        """Stop taking messages and wait for those in progress. Unfinished ones are sent again later."""
        for each in self._loops:
            each.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=drain_s)
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._close_idle()

    async def _send_due(self) -> None:
        while True:
            try:
                found = await self._begin_some()
            except Exception as error:  # noqa: BLE001  # handed to the log
                self._log_failure("mail_queue_read_failed", error)
                found = 0
            if not found:
                await self._close_idle()
                await asyncio.sleep(POLL_S)
            elif self._trouble:
                await asyncio.sleep(min(2.0 ** (self._trouble - 1), PAUSE_MAX_S))

    async def _begin_some(self) -> int:
        """Start as many messages as there are idle connections, waiting for the first; return their number."""
        while not self._idle:
            self._freed.clear()
            await self._freed.wait()
        # Probe a failing server with a single message.
        messages = await queue.lease_due(self._database, 1 if self._trouble else len(self._idle))
        for each in messages:
            task = asyncio.create_task(self._handle(each, self._idle.pop()), name="mail-message")
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        if self._trouble and self._under_way:
            await asyncio.wait(self._under_way)
        return len(messages)

    async def _handle(self, message: MailMessage, connection: SmtpConnection) -> None:
        try:
            async with asyncio.timeout(WORK_S):
                await self._send(message, connection)
        except Exception as error:  # noqa: BLE001  # handed to the log; the lease expires
            self._log_failure("mail_failed", error, message)
        finally:
            self._idle.append(connection)
            self._freed.set()

    async def _send(self, message: MailMessage, connection: SmtpConnection) -> None:
        if pause_ms := await queue.hold_back_ms(self._database, message):
            await queue.record(self._database, message, "waits", pause_ms=pause_ms)
            return
        try:
            outgoing = await self._compose(message)
        except Exception as error:  # noqa: BLE001  # handed to the log
            self._log_failure("mail_not_composed", error, message)
            await self._settle(message, "", MailOutcome("retry", "The message could not be composed; see the log."))
            return
        if outgoing is None:
            log.info("mail_dropped", id=message.id, kind=message.kind)
            await queue.record(self._database, message, "dropped")
            return
        outcome = await connection.send(outgoing)
        if outcome.is_trouble:
            metrics.MAIL_TROUBLE.inc()
            self._trouble += 1
        elif self._trouble:
            self._trouble = 0
        await self._settle(message, outgoing.address, outcome)

    async def _settle(self, message: MailMessage, address: str, outcome: MailOutcome) -> None:
        entry = {"id": message.id, "kind": message.kind, "attempt": message.attempts}
        pause_ms = queue.pause_after(message.attempts)
        code = explain(outcome.reply).code  # the rest of the server's text contains addresses
        if outcome.result == "sent":
            await queue.record(self._database, message, "sent")
            metrics.MAIL_SENT.inc()
            log.info("mail_sent", **entry)
        elif outcome.result == "retry" and pause_ms is not None:
            await queue.record(self._database, message, "again", failure=outcome.reply, pause_ms=pause_ms)
            metrics.MAIL_RETRIES.inc()
            log.warning(
                "mail_deferred", **entry, retry_in_s=pause_ms // 1000, server_trouble=outcome.is_trouble, code=code
            )
        else:
            reason = "tried" if outcome.result == "retry" else outcome.result
            bounced = address if reason == "bounced" else None
            await queue.record(self._database, message, "failed", failure=outcome.reply, bounced=bounced)
            metrics.MAIL_FAILED.labels(reason).inc()
            log.warning("mail_abandoned", **entry, reason=reason, code=code)

    async def _look(self) -> None:
        while True:
            try:
                waiting, oldest_ms = await queue.find_backlog(self._database)
                metrics.MAIL_WAITING.set(waiting)
                metrics.MAIL_OLDEST.set(oldest_ms / 1000)
            except Exception as error:  # noqa: BLE001  # handed to the log
                self._log_failure("mail_backlog_read_failed", error)
            await asyncio.sleep(LOOK_S)

    async def _close_idle(self) -> None:
        for each in self._idle:
            await each.close()

    def _log_failure(self, event: str, error: Exception, message: MailMessage | None = None) -> None:
        """Log the text of a `Problem`, but only the origin of other errors, whose text may contain an address."""
        if isinstance(error, Problem):
            known = {"error": error.message}
        else:
            frames = traceback.extract_tb(error.__traceback__)[-3:]
            known = {"error": type(error).__name__, "at": ", ".join(f"{each.name}:{each.lineno}" for each in frames)}
        where = {"id": message.id, "kind": message.kind} if message is not None else {}
        log.error(event, **where, **known)
        metrics.MAIL_ERRORS.inc()
