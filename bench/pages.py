"""W1 to W5: the server's cost of pages, and how much a browser loads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Self

import httpx

from bench import world
from bench.board import Board
from bench.databases import Place
from bench.figures import Figure, median_text, recorded_trouble
from bench.processes import CannotMeasure
from bench.rounds import Unit
from bench.shared import Shared, keep
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.signin import sessions

CARDS = 200
COLUMNS = 5
DELIVERIES = 30
COMMENTS = 10
COMMENT = "Looks *good* to me, see https://example.com/brief for the rest."
TEXT = "The logo has to be **calm** and work at *16 px*, see https://example.com/brief.\n\n- the dot\n- the gap\n\n"
PAGES_A_ROUND = 50
_NAMED = re.compile(r'(?:href|src)="(/static/[^"#]+)')
_IMPORT_MAP = re.compile(r'<script type="importmap">(.*?)</script>')
_CONTROLLERS = re.compile(r'<meta name="controllers" content="([^"]*)">')
_IMPORTED = re.compile(r"""^import\s(?:[^"';]*?\sfrom\s)?["']([^"']+)["']""", re.MULTILINE)


@dataclass
class Loaded:
    """Bytes transferred: `first` with style sheets, scripts and icons, `later` the page alone."""

    first: int
    later: int


class Studio:
    """A signed-in owner, a board with cards, and a webhook with deliveries, on SQLite. A context manager."""

    def __init__(self, shared: Shared, name: str) -> None:
        """Create the server. `name` is that of its folder and must be unique in the run."""
        place = Place(shared.folder / name, None)
        self.board = Board(place, shared.core, None)
        self.session = _sign_in(place)
        self._http = httpx.Client(
            base_url=self.board.url,
            headers={"Accept": "text/html", "Accept-Encoding": "br"},
            cookies={"workhook_session": self.session},
            timeout=60,
        )
        self.task_id = ""
        for _ in range(COLUMNS):
            _, task_ids = self.board.column(self.board.projects[0], CARDS // COLUMNS)
            self.task_id = task_ids[0]
        self._write()
        self.project = "/benchers/bench0"
        self._deliver(shared)

    def _write(self) -> None:
        task = f"{self.board.url}/api/v1/tasks/{self.task_id}"
        self.board.call("PATCH", task, json={"description": TEXT * 4, "labels": ["print", "urgent"]})
        for _ in range(COMMENTS):
            self.board.call("POST", f"{task}/task_comments", json={"text": COMMENT})

    def _deliver(self, shared: Shared) -> None:
        shared.receiver.reset()
        config = {"url": shared.receiver.url, "content_type": "json", "secret": "a-secret-for-benchmarks"}
        repository = f"{self.board.url}/repos{self.project}"
        made = self.board.call("POST", f"{repository}/hooks", json={"events": ["push"], "config": config}, ok=201)
        self.hook_id = made["id"]
        for number in range(DELIVERIES):
            self.board.call(
                "POST", f"{repository}/events", json={"event": "push", "payload": {"number": number}}, ok=202
            )
        shared.receiver.wait_for(DELIVERIES, 60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self.board.__exit__()

    def measure(self, path: str, number: int) -> float:
        """Return the server's CPU milliseconds per page. Raises `CannotMeasure` for any response other than 200."""
        self._get(path)
        before = self.board.process.cpu_s()
        for _ in range(PAGES_A_ROUND):
            self._get(path)
        return (self.board.process.cpu_s() - before) * 1000 / PAGES_A_ROUND

    def load(self, path: str) -> Loaded:
        """Return how much a browser loads on a first and on a later visit."""
        page = self._get(path)
        later = int(page.headers["content-length"])
        return Loaded(later + sum(self._files(page.text).values()), later)

    def _files(self, page: str) -> dict[str, int]:
        """Return the size of each file that the page loads. Of the import map, only imported modules count."""
        [found] = _IMPORT_MAP.findall(page)
        modules: dict[str, str] = json.loads(found)["imports"]
        named = " ".join(_CONTROLLERS.findall(page)).split()
        waiting = [*_NAMED.findall(page), *(modules[f"workhook/{name}"] for name in named)]
        sizes: dict[str, int] = {}
        while waiting:
            if (path := waiting.pop()) in sizes:
                continue
            answer = self._get(path)
            sizes[path] = int(answer.headers["content-length"])
            if ".js?" in path:
                waiting += [modules[name] for name in _IMPORTED.findall(answer.text)]
        return sizes

    def _get(self, path: str) -> httpx.Response:
        answer = self._http.get(path)
        if answer.status_code != 200:
            raise CannotMeasure(f"GET {path}: {answer.status_code}")
        return answer


def _sign_in(place: Place) -> str:
    """Sign the owner in and return the session's secret."""

    async def start(services: Services) -> str:
        user = await queries.find_account(services.database, "octo")
        assert user is not None
        async with services.database.transaction() as tx:
            return (await sessions.start(tx, user, address=None, user_agent="bench"))[1]

    return world.with_services(place, start)


def figures(shared: Shared) -> Iterator[Figure]:
    """Measure the figures that the plan includes."""
    every = [
        Figure("W1", f"a board of {CARDS} cards, CPU of the server", "ms", "at most", 25),
        Figure("W2", f"a task with {COMMENTS} comments, CPU of the server", "ms", "at most", 10),
        Figure("W3", f"a page of {DELIVERIES} deliveries, CPU of the server", "ms", "at most", 15),
        Figure("W4", "the board for the first time, compressed", "KB", "at most", 120),
        Figure("W5", "the board again, compressed", "KB", "at most", 30),
    ]
    wanted = {each.id: each for each in every if each.id in shared.plan.only}
    if not wanted:
        return
    with recorded_trouble(*wanted.values()), Studio(shared, "pages") as studio:
        _measure(shared, studio, wanted)
    yield from wanted.values()


def _measure(shared: Shared, studio: Studio, wanted: dict[str, Figure]) -> None:
    paths = {
        "W1": studio.project,
        "W2": f"{studio.project}/tasks/{studio.task_id}",
        "W3": f"{studio.project}/webhooks/{studio.hook_id}/deliveries",
    }
    units = {name: Unit(partial(studio.measure, path)) for name, path in paths.items() if name in wanted}
    for name, kept in shared.alternate(units).items():
        keep(wanted[name], kept, lambda each: each)
        wanted[name].details = {"a page": median_text(kept.found, "{:.1f} ms")}
    for name in ("W4", "W5"):
        if name in wanted:
            loaded = studio.load(studio.project)
            wanted[name].rounds = [(loaded.first if name == "W4" else loaded.later) / 1000]
            wanted[name].made = 1
