"""Records the responses of one tree."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.recorded.recorder import Recorder
from tests.recorded.server import Tree, receiving
from tests.recorded.things import Things
from tests.recorded.variations import Attempts, operations, try_other_methods, try_other_paths

LAST = "the end of the record"


def record(folder: Path, out: Path) -> int:
    """Write the responses of the tree's server to `out`, and return the number of requests."""
    with tempfile.TemporaryDirectory() as data, receiving() as receiver, out.open("w", encoding="utf-8") as output:
        tree = Tree(folder, Path(data))
        people = Things.people(tree.run)
        with tree.serving() as address, Recorder(address, receiver, output) as recorder:
            document = recorder.look("/openapi.json", "").json()
            output.write(json.dumps({"openapi": document}, ensure_ascii=False).replace(address, "http://SERVER") + "\n")
            things = Things(recorder, receiver, people)
            for operation in operations(document):
                Attempts(recorder, things, operation).run()
            try_other_methods(recorder, things, document)
            try_other_paths(recorder, things)
            _deliveries(recorder, things)
    return recorder.sent


def _deliveries(recorder: Recorder, things: Things) -> None:
    """Record the deliveries of the webhook for all events in order. They are sent one at a time."""
    recorder.begin("deliveries")
    things.post("/orgs/acme/events", event="fork", payload={"text": LAST})
    path = f"/orgs/acme/hooks/{things.hook['id']}/deliveries"

    def arrived(found: list[dict[str, Any]]) -> bool:
        return LAST in recorder.look(f"{path}/{found[0]['id']}", things.by["owner"]).text

    things.until(f"{path}?per_page=1", arrived)
    found: list[int] = []
    page: str | None = f"{path}?per_page=100"
    while page:
        answer = recorder.ask("GET", page, "list", things.by["owner"])
        found += [each["id"] for each in answer.json()]
        page = answer.links.get("next", {}).get("url")
    for each in reversed(found):
        recorder.ask("GET", f"{path}/{each}", "delivery", things.by["owner"])
