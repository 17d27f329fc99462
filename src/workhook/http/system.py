"""`/healthz`, `/readyz` and `/metrics`, for the server's operators."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import platform
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import sqlalchemy as sa
import structlog
from prometheus_client import CONTENT_TYPE_LATEST, Info, generate_latest

from workhook import __version__
from workhook.core.clock import now_ms
from workhook.core.config import Settings
from workhook.core.errors import Forbidden, Problem, Unauthenticated
from workhook.http.calls import Call, Response, Services
from workhook.http.endpoints import Routes
from workhook.http.operations import SYSTEM, Operation
from workhook.storage import Database
from workhook.storage.dialects import upsert
from workhook.storage.metadata import bigint_param, probe

PROBE_TIMEOUT_S = 4.0
PROBE_FRESH_MS = 1000
FILES_FRESH_MS = 5000  # bucket requests cost money

_FORWARDING_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")
_HOST_PORT = re.compile(r":\d*$")

log = structlog.get_logger(__name__)

_BUILD = Info("workhook_build", "The running versions of Workhook and Python.")
_BUILD.info({"version": __version__, "python": platform.python_version()})

FREE_BYTES_MIN = 100 * 1024**2

_write = (
    upsert(probe)
    .values(id=sa.literal(1, sa.Integer), written_at=bigint_param("now"))
    .on_conflict_do_update(index_elements=["id"], set_={"written_at": bigint_param("now")})
)


class Health(msgspec.Struct):
    status: str
    version: str


class Readiness(msgspec.Struct):
    """The readiness of a process. `checks` maps the name of each check to `ok` or to the fault."""

    status: str
    checks: dict[str, str]


async def write_fault(database: Database) -> str | None:
    """Write one row. Returns why it may be lost, or None. Raises `Problem` if the database is not writable."""
    async with database.transaction() as tx:
        await tx.execute(_write, {"now": now_ms()})
    return "The file was deleted or replaced while it was open." if database.is_lost else None


def written_folders(settings: Settings) -> list[Path]:
    """Return the folders that a process writes to: those of uploads and files, and of the database if it is a file."""
    of_database = [] if settings.sqlite_path is None else [settings.sqlite_path.absolute().parent]
    return list(dict.fromkeys([settings.data.absolute(), *of_database]))


def free_bytes(folder: Path) -> int:
    """Return the free bytes where the folder is or will be created. Raises `OSError`."""
    return shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.is_dir())).free


def space_fault(settings: Settings) -> str | None:
    """Return a message naming a folder that lacks disk space, or None if all have enough."""
    for folder in written_folders(settings):
        try:
            free = free_bytes(folder)
        except OSError as error:
            return f"{folder}: {error.strerror}"
        if free < FREE_BYTES_MIN:
            return f"{folder}: {free // 1024**2:,} MiB free, less than {FREE_BYTES_MIN // 1024**2:,}"
    return None


class Probe:
    """One check of `/readyz`. Its result is reused for `fresh_ms`."""

    def __init__(self, name: str, ask: Callable[[], Awaitable[str | None]], *, fresh_ms: int = PROBE_FRESH_MS) -> None:
        """Create a check.

        `ask` returns the fault, or None; `name` identifies the check in the response and in the log.
        """
        self.name, self._ask, self._fresh_ms = name, ask, fresh_ms
        self._known: tuple[int, str] = (0, "")
        self._lock = asyncio.Lock()

    async def __call__(self) -> str:
        async with self._lock:
            at, verdict = self._known
            if now_ms() - at > self._fresh_ms:
                verdict = await self._try()
                self._known = (now_ms(), verdict)
            return verdict

    async def _try(self) -> str:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                return await self._ask() or "ok"
        except (Problem, TimeoutError) as error:
            log.warning("not_ready", check=self.name, error=str(error))
            return str(error) or "timed out"


def probes(services: Callable[[], Services]) -> list[Probe]:
    """Return the checks that every process needs. `workhook doctor` uses the same ones."""
    return [
        Probe("database", lambda: write_fault(services().database)),
        Probe("files", lambda: services().blobs.check(), fresh_ms=FILES_FRESH_MS),
        Probe("disk", lambda: asyncio.to_thread(space_fault, services().settings)),
    ]


def check_metrics_access(settings: Settings, peer: str | None, headers: Mapping[str, str]) -> None:
    """Require the token of `metrics_token` for metrics or, if none is set, a request from this machine.

    `peer` is the address at the other end of the connection; the names in `headers` are in lower case. A request
    forwarded by a local proxy does not count as local. Raises `Forbidden` or `Unauthenticated`.
    """
    if settings.metrics_token is None:
        if _is_from_this_machine(peer, headers):
            return
        raise Forbidden(
            "Metrics are shown to this machine only. Set metrics_token (WORKHOOK_METRICS_TOKEN) on the server and send"
            " it as a bearer token to read them from elsewhere."
        )
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    received = token.strip().encode("utf-8", "surrogateescape") if scheme.lower() == "bearer" else b""
    if not hmac.compare_digest(received, settings.metrics_token.encode()):
        raise Unauthenticated(
            "Send the token of the server's setting metrics_token: Authorization: Bearer TOKEN.",
            headers={"WWW-Authenticate": "Bearer"},
        )


def _is_from_this_machine(peer: str | None, headers: Mapping[str, str]) -> bool:
    """Return whether a request is local.

    Also checks `Host`: not every proxy adds a forwarding header, and any domain name can resolve to this machine and
    lead a local browser here (DNS rebinding).
    """
    if not _is_loopback(peer or "") or any(name in headers for name in _FORWARDING_HEADERS):
        return False
    host = _HOST_PORT.sub("", headers.get("host", "")).strip("[]").lower()
    return host == "localhost" or _is_loopback(host)


def _is_loopback(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


async def own_metrics() -> bytes:
    return await asyncio.to_thread(generate_latest)  # a tenth of a second with many series


def operations(
    probes: Sequence[Probe],
    others: Callable[[], dict[str, str]],
    metrics_text: Callable[[], Awaitable[bytes]] = own_metrics,
) -> Sequence[Operation]:
    """Return the operations. `others` returns checks that need no waiting, by name."""
    routes = Routes(SYSTEM, "system", etag=False)

    @routes.get("/healthz")
    async def healthz(call: Call) -> Health:
        """Check whether the process is alive."""
        return Health("ok", __version__)

    @routes.get("/readyz", answers={200: Readiness, 503: Readiness})
    async def readyz(call: Call) -> Response:
        """Check whether the process can serve requests."""
        checks = dict(
            zip((each.name for each in probes), await asyncio.gather(*(each() for each in probes)), strict=True)
        )
        checks |= others()
        ready = all(verdict == "ok" for verdict in checks.values())
        headers = {} if ready else {"Retry-After": "2"}
        return Response(Readiness("ready" if ready else "not ready", checks), 200 if ready else 503, headers)

    @routes.get("/metrics", answers={200: {"type": "string"}}, media_type="text/plain", problems=(401, 403))
    async def metrics(call: Call) -> Response:
        """Get metrics in the Prometheus format.

        Send the token of the `metrics_token` setting: `Authorization: Bearer TOKEN`. Without that setting, only
        requests from the server's own machine are accepted.
        """
        check_metrics_access(call.services.settings, call.request.client_host, call.request.headers)
        return Response(await metrics_text(), media_type=CONTENT_TYPE_LATEST)

    return routes
