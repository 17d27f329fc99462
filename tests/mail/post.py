"""A database with queued messages, and the mailer that sends them, in the test's process."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from tests.harness.waiting import WAIT_S, until
from tests.harness.world import KeptServices
from workhook.core.clock import HOUR_MS, now_ms
from workhook.core.mail_address import parse_sender, parse_smtp_url
from workhook.delivery.mail.mailer import Mailer
from workhook.http.calls import Services
from workhook.identity import actions
from workhook.identity.mail.links import queue_own_link
from workhook.identity.schemas import Account
from workhook.identity.tables import mail_messages
from workhook.storage import Row
from workhook.storage.metadata import bigint_param, insert_into
from workhook.web.mail import Composer

BASE = "https://work.studio.example"
FROM = "work@studio.example"

_numbers = itertools.count(1)
_c = mail_messages.c
_all = sa.select(mail_messages).order_by(_c.id)
_add = insert_into(
    mail_messages, "user_id", "kind", "account_id", "recipient", "actor_id", "created_at", "sent_at", "next_attempt_at"
)
_make_due = sa.update(mail_messages).where(_c.next_attempt_at.is_not(None)).values(next_attempt_at=bigint_param("at"))
_set_attempts = sa.update(mail_messages).values(attempts=bigint_param("attempts"))


class Post:
    """A mailer that sends to the mail server at `url`."""

    def __init__(self, settings: dict[str, Any], url: str) -> None:
        self.url = url
        self._kept = KeptServices({**settings, "smtp_url": url, "mail_from": FROM, "base_url": BASE})

    def close(self) -> None:
        self._kept.close()

    def run(self, work: Any) -> Any:
        return self._kept.run(work)

    def person(self) -> Account:
        login = f"reader-{next(_numbers)}-{uuid.uuid4().hex[:6]}"

        async def make(services: Services) -> Account:
            async with services.database.transaction() as tx:
                return await actions.create_account(tx, "user", login, name=None, email=f"{login}@example.com")

        person: Account = self.run(make)
        return person

    def queue(self, person: Account, number: int = 1) -> None:
        """Queue `number` messages to the person."""

        async def add(services: Services) -> None:
            async with services.database.transaction() as tx:
                for _ in range(number):
                    path, now = f"/login/link/{uuid.uuid4().hex}", now_ms()
                    await queue_own_link(
                        tx, services.vault, person.id, "sign_in_link", path, expires_at=now + HOUR_MS, now=now
                    )

        self.run(add)

    def mention(self, person: Account, number: int, *, actor: Account | None = None, is_sent: bool = False) -> None:
        """Queue `number` notifications of a mention by `actor`, or insert them as sent."""
        now = now_ms()
        row = {
            "user_id": person.id, "kind": "mention", "account_id": person.id, "recipient": f"u{person.id}",
            "actor_id": actor.id if actor else None, "created_at": now,
            "sent_at": now if is_sent else None, "next_attempt_at": None if is_sent else 0,
        }  # fmt: skip

        async def add(services: Services) -> None:
            async with services.database.transaction() as tx:
                for _ in range(number):
                    await tx.execute(_add, row)

        self.run(add)

    def rows(self) -> list[Row]:
        async def read(services: Services) -> list[Row]:
            return list(await services.database.fetch_all(_all, {}))

        found: list[Row] = self.run(read)
        return found

    def make_due(self) -> None:
        """Make every waiting message due."""
        self._write(_make_due, {"at": 0})

    def set_attempts(self, attempts: int) -> None:
        self._write(_set_attempts, {"attempts": attempts})

    def _write(self, statement: Any, params: dict[str, object]) -> None:
        async def write(services: Services) -> None:
            await services.database.in_transaction(lambda tx: tx.execute(statement, params))

        self.run(write)

    def deliver(self, is_done: Callable[[list[Row]], bool], *, timeout_s: float = 30.0) -> list[Row]:
        """Run a mailer until `is_done` accepts the rows, and return them.

        `timeout_s` is the timeout for the mail server.
        """

        async def start(services: Services) -> Mailer:
            compose = Composer(services, BASE, parse_sender(FROM))
            mailer = Mailer(services.database, parse_smtp_url(self.url), compose, timeout_s=timeout_s)
            mailer.start()
            return mailer

        def read() -> tuple[list[Row]] | None:  # a tuple, because an empty list is a valid result
            rows = self.rows()
            return (rows,) if is_done(rows) else None

        mailer: Mailer = self.run(start)
        try:
            found = until(read)
            assert found is not None
            return found[0]
        finally:
            self.run(lambda _: mailer.stop(WAIT_S))


def nothing_waits(rows: list[Row]) -> bool:
    return all(row["next_attempt_at"] is None for row in rows)


def all_were_tried(rows: list[Row]) -> bool:
    """Return whether every message has been tried and its outcome recorded."""
    return all(row["sent_at"] or row["failure"] for row in rows)
