"""A3: round trips to PostgreSQL per request, including BEGIN, COMMIT and NOTIFY. A count, not a time.

`tests/work/test_round_trips.py` checks the limit of every operation. These are the ones listed in the documentation.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from bench import world
from bench.board import Board
from bench.client import post, send_all
from bench.databases import Place
from bench.figures import Figure, recorded_trouble
from bench.live import PUBLISHERS
from bench.shared import Shared
from tests.harness.round_trips import Relay

ALONE = 9  # requests of a kind, sequentially
AT_ONCE = 160  # events by all publishers together
TOLD_S = 0.1  # after a response: notifications follow a moment later
READ = f"a read, PostgreSQL: round trips (of {ALONE}, one at a time)"
ACROSS = "the tasks of all projects, likewise"
PROJECTS = 20  # their number
WRITE, CREATE = "a write, likewise", "a task created, likewise"
PUBLISH = f"an event published, {PUBLISHERS} at once"


def figures(shared: Shared) -> Iterator[Figure]:
    targets = ((READ, 3), (ACROSS, 3), (WRITE, 4), (CREATE, 3), (PUBLISH, 2))
    every = [Figure("A3", what, "trips", "at most", target) for what, target in targets]
    with recorded_trouble(*every):
        shared.say("A3: counting")
        with ExitStack() as stack:
            _count(shared, stack, {each.what: each for each in every})
    yield from every


def _count(shared: Shared, stack: ExitStack, by_what: dict[str, Figure]) -> None:
    relay = Relay(shared.database_url())
    stack.callback(relay.close)
    place = Place(shared.folder / "A3", relay.url)
    board = stack.enter_context(Board(place, shared.core, None, "--no-worker", projects=PROJECTS))
    columns = [board.column(project, 1) for project in board.projects]
    column, [task] = columns[0]
    kinds: dict[str, Callable[[], object]] = {
        READ: lambda: board.call("GET", f"/columns/{column}/tasks"),
        ACROSS: lambda: board.call("GET", "/tasks"),
        WRITE: lambda: board.call("PATCH", f"/tasks/{task}", json={"title": f"Counted {time.monotonic_ns()}"}),
        CREATE: lambda: board.call("POST", f"/columns/{column}/tasks", json={"title": "Count"}),
    }
    for what, ask in kinds.items():
        _keep(by_what[what], [_alone(relay, ask) for _ in range(ALONE)])
    path, token = f"/repos/{next(iter(board.world.repositories))}/events", board.world.token
    events = [post(path, b'{"event":"push","payload":' + world.body(n) + b"}", token) for n in range(AT_ONCE)]
    send_all(board.url, events[:PUBLISHERS], expected=202, at_once=PUBLISHERS)
    time.sleep(TOLD_S)
    relay.forget()
    send_all(board.url, events, expected=202, at_once=PUBLISHERS)
    time.sleep(TOLD_S)
    _keep(by_what[PUBLISH], [len(relay.trips) / AT_ONCE])


def _alone(relay: Relay, ask: Callable[[], object]) -> float:
    relay.forget()
    ask()
    time.sleep(TOLD_S)
    return float(len(relay.trips))


def _keep(figure: Figure, counted: list[float]) -> None:
    figure.rounds, figure.made = [statistics.median(counted)], 1
    figure.details = {"least and most": f"{min(counted):g}…{max(counted):g}"}
