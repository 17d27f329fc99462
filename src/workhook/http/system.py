"""`/healthz`, `/readyz`, `/metrics`: for those who run the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import sqlalchemy as sa
import structlog
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from workhook.core.clock import now_ms
from workhook.core.errors import Problem
from workhook.http.calls import Answer, Call
from workhook.http.operations import SYSTEM, Operation
from workhook.storage import Database
from workhook.storage.dialects import upsert
from workhook.storage.metadata import big, probe

PROBE_TIMEOUT_S = 4.0
PROBE_FRESH_MS = 1000

log = structlog.get_logger(__name__)

_write = (
    upsert(probe)
    .values(id=sa.literal(1, sa.Integer), written_at=big("now"))
    .on_conflict_do_update(index_elements=["id"], set_={"written_at": big("now")})
)


class Health(msgspec.Struct):
    status: str


class Readiness(msgspec.Struct):
    """`checks`: name → ok, or what is wrong."""

    status: str
    checks: dict[str, str]


class Probe:
    """Writes one row to know that the database can be written; an answer serves for a second."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self._known: tuple[int, str] = (0, "")
        self._lock = asyncio.Lock()

    async def __call__(self) -> str:
        async with self._lock:
            at, verdict = self._known
            if now_ms() - at > PROBE_FRESH_MS:
                verdict = await self._try()
                self._known = (now_ms(), verdict)
            return verdict

    async def _try(self) -> str:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S), self._database().transaction() as tx:
                await tx.execute(_write, {"now": now_ms()})
        except (Problem, TimeoutError) as error:
            log.warning("not_ready", check="database", error=str(error))
            return str(error) or "timed out"
        return "ok"


def operations(probe_database: Probe, others: Callable[[], dict[str, str]]) -> tuple[Operation, ...]:
    """`others`: checks that need no waiting, by name."""

    async def healthz(call: Call) -> Answer:
        return Answer(Health("ok"))

    async def readyz(call: Call) -> Answer:
        checks = {"database": await probe_database(), **others()}
        ready = all(verdict == "ok" for verdict in checks.values())
        headers = {} if ready else {"Retry-After": "2"}
        return Answer(Readiness("ready" if ready else "not ready", checks), 200 if ready else 503, headers)

    async def metrics(call: Call) -> Answer:
        return Answer(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    return (
        _op("/healthz", "healthz", "Whether the process is alive", healthz, {200: Health}),
        _op("/readyz", "readyz", "Whether the process can serve", readyz, {200: Readiness, 503: Readiness}),
        _op("/metrics", "metrics", "Metrics for Prometheus", metrics, {200: {"type": "string"}}, "text/plain"),
    )


def _op(
    path: str, name: str, summary: str, handler: object, answers: object, media_type: str = "application/json"
) -> Operation:
    return Operation(
        SYSTEM, "GET", path, handler, name, summary, None, "system",  # type: ignore[arg-type]  # passed through
        answers=answers, media_type=media_type, etag=False,  # type: ignore[arg-type]
    )  # fmt: skip
