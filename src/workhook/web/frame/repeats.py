"""Idempotency of forms.

A form that creates something runs once, even after a double click, a browser's retry, or going back and sending it
again. A repeated form gets the first response.

The field `csrf` differs each time a form is rendered (`cookies.masked`), so session, address and fields together
identify one filled-in form. Their digest is stored at the start of the change's transaction, where a concurrent repeat
waits for the commit. The response is added afterwards. `identity.tokens.issue.prune` deletes both after a day. For the
API, see `http.idempotency`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping

import msgspec
import sqlalchemy as sa

from workhook.core.clock import now_ms
from workhook.core.errors import Conflict
from workhook.http.calls import Call, Response
from workhook.identity.tables import sent_forms
from workhook.storage import Transaction
from workhook.storage.dialects import upsert
from workhook.storage.signals import FORMS
from workhook.web.frame.sessions import Session
from workhook.web.frame.texts import gettext

WAIT_S = 2.0  # for the response of a committed change

_this = sent_forms.c.digest == sa.bindparam("sent_digest")
_find = sa.select(sent_forms.c.answer).where(_this)
_take = (
    upsert(sent_forms)
    .values({name: sa.bindparam(name) for name in ("digest", "session_id", "created_at")})
    .on_conflict_do_nothing(index_elements=["digest"])
)
_answer = sa.update(sent_forms).where(_this).values(answer=sa.bindparam("given"))


class Repeated(Exception):
    """The form was sent before. The current transaction must be rolled back."""


class _Given(msgspec.Struct, frozen=True):
    """A stored response."""

    status: int
    headers: Mapping[str, str]
    body: bytes | None
    media_type: str


class SentForm:
    """A sent form, identified by the digest of its contents."""

    def __init__(self, call: Call, session: Session) -> None:
        scope = call.request.scope
        self.is_taken = False
        self._call, self._session_id = call, session.id
        self._digest = b""
        for part in (str(session.id).encode(), scope["path"].encode(), scope["query_string"]):
            self.add(part)

    def add(self, part: bytes) -> None:
        """Add a part to the form's identity."""
        self._digest = hashlib.sha256(self._digest + part).digest()

    async def take(self, tx: Transaction) -> None:
        """Store the form at the start of its change. Raises `Repeated`."""
        params = {"digest": self._digest, "session_id": self._session_id, "created_at": now_ms()}
        if not await tx.execute(_take, params):
            raise Repeated

    async def answered(self, answer: Response | None) -> None:
        """Store the response to a completed change, so that a repeated form gets it again.

        Only redirects and JSON are stored, because a page may show secrets.
        """
        if not self.is_taken:
            return
        packed = b""
        is_json = answer is not None and answer.status < 400 and answer.media_type.startswith("application/json")
        if answer is not None and (answer.status == 303 or is_json):
            body = None if answer.body is None else self._call.encode(answer.body)
            packed = msgspec.msgpack.encode(_Given(answer.status, answer.headers, body, answer.media_type))
        params = {"sent_digest": self._digest, "given": packed}
        await self._call.database.write(_answer, [params])
        self._call.database.signals.send(FORMS, (self._session_id,))

    async def find_answer(self) -> Response | None:
        """Return the first response, or None for a new form. Raises `Conflict` if it can't be repeated."""
        row = await self._call.database.fetch_one(_find, {"sent_digest": self._digest})  # the response may be null
        return await self.first_answer() if row is not None else None

    async def first_answer(self) -> Response:
        """Wait for the response to a form that was sent before, perhaps just now, and return it.

        On SQLite, both requests may be in the same commit. Raises `Conflict` if the response can't be repeated.
        """
        signalled = asyncio.Event()
        stop_listening = self._call.database.signals.listen(FORMS, lambda _: signalled.set())
        until = asyncio.get_running_loop().time() + WAIT_S
        try:
            while (packed := await self._find_given()) is None:
                async with asyncio.timeout_at(until):
                    await signalled.wait()
                signalled.clear()  # before the next read, so no signal is missed
        except TimeoutError:  # a signal may have been lost
            packed = await self._find_given()
        finally:
            stop_listening()
        if not packed:
            message = gettext("This form was already submitted. Reload the page.")
            raise Conflict(message, code="already_sent")
        its = msgspec.msgpack.decode(packed, type=_Given)
        return Response(its.body, its.status, its.headers, its.media_type)

    async def _find_given(self) -> bytes | None:
        """Return the response that `answered` stored, or None before that."""
        row = await self._call.database.fetch_one(_find, {"sent_digest": self._digest})
        return None if row is None else row["answer"]
