"""An in-process server that counts the SQL statements of each request."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import httpx
import uvicorn

from tests.harness.world import World, add_user, make_world
from workhook.asgi import build_app
from workhook.bootstrap import open_services
from workhook.core.config import load
from workhook.http.calls import Services
from workhook.storage import Database, Transaction
from workhook.storage.dialects import SQLITE
from workhook.storage.statements import PerDialect

T = TypeVar("T")

_inside: ContextVar[bool] = ContextVar("inside", default=False)
LOOK_UP = "SELECT tokens.id AS token_id"
NOTE = "UPDATE tokens SET last_used_at"
COUNTED = ("fetch_all", "fetch_one", "fetch_row", "fetch_slow", "execute", "execute_many", "flush")


_texts: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def _text(statement: Any) -> str:
    """Return the beginning of a statement in the SQLite dialect, cached because most requests reuse the same object."""
    if statement not in _texts:
        written: Any = statement.of("sqlite") if isinstance(statement, PerDialect) else statement
        _texts[statement] = " ".join(str(written.compile(dialect=SQLITE)).split())[:160]
    return _texts[statement]


class Counted:
    """A counting wrapper around a real database. BEGIN and COMMIT do not count as statements."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.statements: list[str] = []
        self._count(database)

    def _count(self, what: Database | Transaction) -> None:
        for name in COUNTED:
            if (method := getattr(what, name, None)) is not None:
                setattr(self if what is self._database else what, name, self._counting(what, name, method))

    def _counting(self, what: Any, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*given: Any) -> Any:
            if _inside.get() or given[1:] == ([],):  # a nested call, or a batch without rows, which sends nothing
                return await method(*given)
            # Deferred statements share one round trip that precedes this one.
            along = [_text(each.statement) for each in getattr(what, "deferred", ())]
            if (question := getattr(what, "deferred_read", None)) is not None:
                along.append(_text(question.statement))
            asked = [_text(each) for each in given[:1]]
            self.statements += [" + ".join(trip) for trip in (along, asked) if trip]
            token = _inside.set(True)
            try:
                return await method(*given)
            finally:
                _inside.reset(token)

        return counted

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self._database.transaction() as tx:
            self._count(tx)
            yield tx

    async def in_transaction(self, change: Callable[[Transaction], Awaitable[T]]) -> T:
        async with self.transaction() as tx:
            return await change(tx)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


class CountedServer:
    """A server without a worker. `statements` contains the statements since the last `forget`."""

    wrap: type[Counted] = Counted

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = {
            "api_rate_limit": 0,
            "hooks_per_event": 0,
            "delivery_allow_networks": "127.0.0.0/8",
            **settings,
        }
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self.url = ""
        self.world: World

    def start(self) -> CountedServer:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    async def _serve(self) -> None:
        async with open_services(load(self._settings, {}), serving=True) as services:
            self._services, self._loop = services, asyncio.get_running_loop()
            self._counted = self.wrap(services.database)
            self.world = await make_world(services)
            self.member_token = await add_user(services, self.world, member="member")
            counting: Services = replace(services, database=self._counted)  # type: ignore[arg-type]  # same interface
            config = uvicorn.Config(build_app(counting), loop="none", lifespan="off", log_config=None, ws="none")
            self._server = uvicorn.Server(config)
            # asyncio sets TCP_NODELAY only with an explicit protocol. Without it, two-part responses take 40 ms longer.
            listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            listening.bind(("127.0.0.1", 0))
            listening.listen()  # connections made before the server takes over wait instead of being refused
            self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            self._ready.set()
            await self._server.serve(sockets=[listening])

    @property
    def statements(self) -> list[str]:
        return list(self._counted.statements)

    @property
    def of_requests(self) -> list[str]:
        """Statements without the token lookup and the update of its last use.

        The lookup is cached briefly, so only some requests make one. The update may run during the next request.
        """
        return [each for each in self._counted.statements if not each.startswith((LOOK_UP, NOTE))]

    def forget(self) -> None:
        self._counted.statements.clear()

    def run(self, work: Callable[[Services], Awaitable[T]]) -> T:
        """Run `work(services)` without counting its statements."""

        async def done() -> T:
            return await work(self._services)

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(60)

    def client(self, token: str | None, **more: Any) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, **more)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)
