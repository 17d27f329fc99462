"""A server in this process that captures the statements of each request with their parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sqlalchemy.sql.expression import Executable

from tests.work.counted import Counted, CountedServer
from workhook.storage import Transaction
from workhook.storage.statements import Params

READS = frozenset({"fetch_all", "fetch_one", "fetch_row", "fetch_slow"})


class Asked(NamedTuple):
    statement: Executable
    params: Params


class Captured(Counted):
    """`asked` contains the reads since it was last cleared."""

    def __init__(self, database: Any) -> None:
        self.asked: list[Asked] = []
        super().__init__(database)

    def _counting(self, what: Any, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        async def captured(statement: Executable, params: Params | None = None) -> Any:
            self.asked.append(Asked(statement, dict(params or {})))
            return await method(statement, params)

        calls_another = name == "fetch_row" and isinstance(what, Transaction)
        return captured if name in READS and not calls_another else method


class CapturedServer(CountedServer):
    wrap = Captured

    @property
    def asked(self) -> list[Asked]:
        assert isinstance(self._counted, Captured)
        return self._counted.asked
