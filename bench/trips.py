"""A3: how often a request goes to PostgreSQL and back, BEGIN, COMMIT and NOTIFY counted. A count, not a time.

`tests/work/test_round_trips.py` holds every operation to its bound. Here are those that the page names.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import uvloop

from bench import world
from bench.client import Pool, closed_loop, post
from bench.databases import Place
from bench.figures import Figure
from bench.live import PUBLISHERS
from bench.processes import CannotMeasure, workhook
from bench.shared import Shared
from tests.harness.trips import Relay

ALONE = 9  # requests of a kind, one after the other
AT_ONCE = 160  # events by all publishers
TOLD_S = 0.1  # after an answer: what changed is told a moment later
READ = f"a read, PostgreSQL: round trips (of {ALONE}, one at a time)"
ACROSS = "the tasks of all projects, likewise"
PROJECTS = 20  # so many
WRITE, CREATE = "a write, likewise", "a task created, likewise"
PUBLISH = f"an event published, {PUBLISHERS} at once"


def figures(shared: Shared) -> Iterator[Figure]:
    targets = ((READ, 3), (ACROSS, 3), (WRITE, 4), (CREATE, 3), (PUBLISH, 2))
    every = [Figure("A3", what, "trips", "at most", target) for what, target in targets]
    try:
        shared.say("A3: counting")
        with ExitStack() as stack:
            _count(shared, stack, {each.what: each for each in every})
    except CannotMeasure as error:
        for figure in every:
            figure.trouble = figure.trouble or (None if figure.rounds else str(error))
    yield from every


def _count(shared: Shared, stack: ExitStack, by_what: dict[str, Figure]) -> None:
    relay = Relay(shared.database_url())
    stack.callback(relay.close)
    place = Place(shared.folder / "A3", relay.url)
    made = world.make_world(place, "http://127.0.0.1:9", repositories=1, hooks=0)
    server = workhook("serve", place.folder, place.settings, shared.core, "--port", "0", "--no-worker")
    stack.callback(server.stop)
    url = server.wait_for_line("workhook: listening on ").split()[-1]
    headers = {"Authorization": f"Bearer {made.token}"}
    client = stack.enter_context(httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=60))

    def call(method: str, path: str, **more: object) -> httpx.Response:
        response = client.request(method, path, **more)  # type: ignore[arg-type]  # any of its options
        if response.status_code >= 300:
            raise CannotMeasure(f"{method} {path}: {response.status_code} {response.text}")
        return response

    first = call("GET", "/projects").json()["projects"][0]
    project, organization = first["id"], first["full_name"].partition("/")[0]
    column = call("POST", f"/projects/{project}/columns", json={"title": "To do"}).json()["column"]["id"]

    def create() -> httpx.Response:
        return call("POST", f"/columns/{column}/tasks", json={"title": "Count"})

    task = create().json()["task"]["id"]
    for number in range(1, PROJECTS):
        made_too = {"title": f"Count {number}", "organization": organization}
        another = call("POST", "/projects", json=made_too).json()["project"]["id"]
        place_there = call("POST", f"/projects/{another}/columns", json={"title": "To do"}).json()["column"]["id"]
        call("POST", f"/columns/{place_there}/tasks", json={"title": "Count"})
    kinds: dict[str, Callable[[], object]] = {
        READ: lambda: call("GET", f"/columns/{column}/tasks"),
        ACROSS: lambda: call("GET", "/tasks"),
        WRITE: lambda: call("PATCH", f"/tasks/{task}", json={"title": f"Counted {time.monotonic_ns()}"}),
        CREATE: create,
    }
    for what, ask in kinds.items():
        _keep(by_what[what], [_alone(relay, ask) for _ in range(ALONE)])
    path = f"/repos/{next(iter(made.repositories))}/events"
    events = [post(path, b'{"event":"push","payload":' + world.body(n) + b"}", made.token) for n in range(AT_ONCE)]
    _published(url, events[:PUBLISHERS])
    time.sleep(TOLD_S)
    relay.forget()
    _published(url, events)
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


def _published(url: str, events: list[bytes]) -> None:
    async def run() -> None:
        pool = Pool(url)

        async def send(number: int) -> None:
            status, _ = await pool.request(events[number])
            if status != 202:
                raise CannotMeasure(f"the server answered {status} to a publish")

        await closed_loop(send, len(events), PUBLISHERS)
        pool.close()

    uvloop.run(run())
