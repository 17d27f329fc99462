"""Resolves names with `getaddrinfo`, limited so that dead name servers of some hooks do not delay others.

A lookup blocks a thread for as long as the name servers take. The owner of a domain controls the duration and the
number of names, so lookups are limited per domain, and all slow domains together get half of the slots.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from workhook.core.caching import put_bounded
from workhook.delivery.address_policy import ResourceExhausted, as_resource_exhausted

if TYPE_CHECKING:
    from aiohttp.abc import ResolveResult

_Where = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
_Found = tuple[socket.AddressFamily, socket.SocketKind, int, str, _Where]
_Answer = list[_Found] | OSError
_Key = tuple[bytes, socket.AddressFamily]

LOOKUPS_AT_ONCE = 32
LOOKUPS_OF_A_DOMAIN = 4
LONGEST_S = 10.0  # for a slot, and again for the result

SLOW_S = 2.0  # a domain with a lookup this long is slow ...
SLOW_FOR_S = 60.0  # ... for this long
FOUND_S = 5.0  # how long a result is reused; its addresses are checked at every connection
# A failure is reused for five times as long as it took, so the first retry of a delivery (after 10 s) repeats the
# lookup unless it is expensive.
FAILED_FACTOR = 5.0
FAILED_S = (1.0, 30.0)
_REMEMBERED = 4096

# Below a country code these mostly belong to a registry, and the names below them have different owners.
_REGISTRIES = frozenset({b"ac", b"co", b"com", b"edu", b"gov", b"ne", b"net", b"or", b"org"})


class SystemResolver:
    """Runs `getaddrinfo` in daemon threads. Equal names share one lookup."""

    def __init__(self, at_once: int = LOOKUPS_AT_ONCE) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._slow_places = asyncio.Semaphore(max(1, at_once // 2))
        self._domains: WeakValueDictionary[bytes, asyncio.Semaphore] = WeakValueDictionary()
        self._slow: OrderedDict[bytes, float] = OrderedDict()  # domain → end
        self._running: dict[_Key, asyncio.Task[_Answer]] = {}
        self._kept: OrderedDict[_Key, tuple[float, _Answer]] = OrderedDict()  # expiry and result

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolve `host`. Raises `OSError` for an unknown host, and `ResourceExhausted`."""
        try:
            # As bytes: Python encodes text again and raises UnicodeError for labels that are too long.
            key = host.encode("ascii"), family
        except UnicodeEncodeError as error:
            raise socket.gaierror(socket.EAI_NONAME, "not a host name") from error
        found = await self._answer_to(key)
        if isinstance(found, OSError):
            raise type(found)(*found.args)  # a copy, because all its callers would extend its traceback
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            {
                "hostname": host,
                "host": _address_of(where),
                "port": port,
                "family": family,
                "proto": protocol,
                "flags": flags,
            }
            for family, _, protocol, _, where in found
        ]

    async def _answer_to(self, key: _Key) -> _Answer:
        until, kept = self._kept.get(key, (0.0, []))
        if time.monotonic() < until:
            return kept
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(self._look_up(key), name="dns")
            task.add_done_callback(lambda _: self._running.pop(key, None))
        return await asyncio.shield(task)  # other callers may still wait for it

    async def _look_up(self, key: _Key) -> _Answer:
        """Look up a name. Never raises, because callers would wait forever."""
        domain = _domain_of(key[0])
        held: list[asyncio.Semaphore] = []
        try:
            async with asyncio.timeout(LONGEST_S):
                for gate in self._gates(domain):
                    await gate.acquire()
                    held.append(gate)
        except TimeoutError:
            _release(held)
            return socket.gaierror(socket.EAI_AGAIN, "too many names of slow servers are being looked up")
        except asyncio.CancelledError:
            _release(held)
            raise
        started = time.monotonic()
        answer = self._start(key, domain, held)
        try:
            async with asyncio.timeout(LONGEST_S):
                return await answer
        except TimeoutError:
            error = socket.gaierror(socket.EAI_AGAIN, "the lookup takes too long")
            self._keep(key, domain, error, time.monotonic() - started)
            return error

    def _gates(self, domain: bytes) -> list[asyncio.Semaphore]:
        """Return the semaphores of a lookup, narrowest first, so that waiting takes no slot from others."""
        own = self._domains.get(domain)
        if own is None:
            own = self._domains[domain] = asyncio.Semaphore(LOOKUPS_OF_A_DOMAIN)
        slow = self._slow.get(domain, 0.0) > time.monotonic()
        return [own, self._slow_places, self._places] if slow else [own, self._places]

    def _start(self, key: _Key, domain: bytes, held: list[asyncio.Semaphore]) -> asyncio.Future[_Answer]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_Answer] = loop.create_future()
        started = time.monotonic()

        def finish(found: _Answer) -> None:
            _release(held)  # only now, because the thread outlives its timeout
            self._keep(key, domain, found, time.monotonic() - started)
            if not answer.done():
                answer.set_result(found)

        def run() -> None:
            found = _ask(*key)
            with contextlib.suppress(RuntimeError):  # the loop is closed because the process is exiting
                loop.call_soon_threadsafe(finish, found)

        try:
            threading.Thread(target=run, name="workhook-dns", daemon=True).start()
        except RuntimeError as error:
            finish(ResourceExhausted(str(error)))
        return answer

    def _keep(self, key: _Key, domain: bytes, found: _Answer, took_s: float) -> None:
        now = time.monotonic()
        if took_s >= SLOW_S:
            put_bounded(self._slow, domain, now + SLOW_FOR_S, _REMEMBERED)
        least_s, most_s = FAILED_S
        if not isinstance(found, OSError):
            put_bounded(self._kept, key, (now + FOUND_S, found), _REMEMBERED)
        elif not isinstance(found, ResourceExhausted):
            put_bounded(self._kept, key, (now + min(max(took_s * FAILED_FACTOR, least_s), most_s), found), _REMEMBERED)


def _ask(name: bytes, family: socket.AddressFamily) -> _Answer:
    try:
        return [*socket.getaddrinfo(name, None, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)]
    except OSError as error:
        return as_resource_exhausted(error) or _no_descriptor_left() or error


def _no_descriptor_left() -> ResourceExhausted | None:
    """Return `ResourceExhausted` if no descriptor is left, which the system reports as an unknown host."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
    except OSError as error:
        return as_resource_exhausted(error)
    return None


def _domain_of(name: bytes) -> bytes:
    """Return roughly the part that belongs to one registrant: two labels, or three below `co.uk` and similar."""
    labels = name.removesuffix(b".").lower().split(b".")
    below_registry = len(labels[-1]) == 2 and len(labels) > 2 and labels[-2] in _REGISTRIES
    return b".".join(labels[-3 if below_registry else -2 :])


def _release(held: list[asyncio.Semaphore]) -> None:
    for gate in held:
        gate.release()
    held.clear()


def _address_of(where: _Where) -> str:
    """Return the address with its zone, because a link-local address is meaningless without it."""
    return f"{where[0]}%{where[3]}" if len(where) > 3 and where[3] else str(where[0])
