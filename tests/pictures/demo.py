"""A studio with a project in full swing, for pictures: people, a board, comments, time, and a webhook's deliveries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from tests.browser.people import Insider
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.pictures.contents import Filler
from tests.pictures.people import ORGANIZATION, PEOPLE, add_people, call

PROJECT = "Harbor Festival 2027"

# By column: title, days until the deadline, priority, labels, assignees, and comments as (login, text).
BOARD: dict[str, list[dict[str, Any]]] = {
    "Ideas": [
        {"title": "Tide table on the home page", "labels": ["website"], "people": ["mei"]},
        {"title": "Audio walk along the old docks", "labels": ["content"],
         "comments": [("sam", "The museum has tapes!")]},
        {"title": "Volunteer sign-up as a form", "labels": ["website", "forms"]},
    ],
    "Next": [
        {"title": "Program page: filter by stage and day", "days": 9, "priority": "high", "labels": ["website"],
         "people": ["jonas", "mei"],
         "comments": [("jonas", "Stages first, days second?"), ("mei", "Yes, as in the sketch.")]},
        {"title": "Poster series: three motifs", "days": 12, "labels": ["print"], "people": ["ada"]},
        {"title": "Translate the ticket terms", "days": 15, "labels": ["content", "legal"], "people": ["sam"]},
        {"title": "Photos of all food stalls", "labels": ["content"]},
    ],
    "In progress": [
        {"title": "Ticket shop: seat map on phones", "days": 2, "priority": "high", "labels": ["shop"],
         "people": ["mei"]},
        {"title": "Newsletter: early-bird tickets", "days": 1, "priority": "medium", "labels": ["mail"],
         "people": ["sam", "ada"], "comments": [("ada", "Send on Thursday, 10:00.")]},
        {"title": "Sponsor logos in the footer", "days": -1, "labels": ["website"], "people": ["jonas"]},
        {"title": "Accessibility check of the booking steps", "days": 6, "labels": ["shop", "quality"],
         "people": ["mei"]},
    ],
    "Done": [
        {"title": "Domain and certificates", "labels": ["hosting"], "people": ["jonas"]},
        {"title": "Colors and type for the new season", "labels": ["design"], "people": ["ada"],
         "comments": [("ada", "Signed off by the festival.")]},
        {"title": "Contract with the ticket provider", "labels": ["legal"], "people": ["ada"]},
    ],
}  # fmt: skip
STAGES = {"Ideas": None, "Next": "in_queue", "In progress": "in_progress", "Done": "done"}
_BUSY = b'{"error": "The deploy queue is full", "retry": "in a minute"}'


@dataclass
class Demo:
    """The viewers of the pictures, and the values for the paths of places."""

    people: dict[str, Insider]
    names: dict[str, str]  # by the names in the paths of operations: `owner`, `project`, `task_id`, …


def make_demo(server: Server, receiver: Receiver) -> Demo:
    people = server.run(add_people)
    names = {"owner": ORGANIZATION[0]}
    with server.client(people["ada"].token) as api:
        project = call(api, "POST", "/api/v1/projects", title=PROJECT, organization=ORGANIZATION[0])["project"]
        names["project"] = project["name"]
        base = f"/{names['owner']}/{names['project']}"
        for login in list(PEOPLE)[1:]:
            call(api, "POST", f"/api/v1/projects/{project['id']}/members", username=login)
        hook = _add_hook(api, base, receiver)
        tasks = _fill_board(server, api, project["id"], people, names)
        filler = Filler(server, api, project["id"], people, tasks, names)
        filler.fill()
        failed = _deliver(api, base, hook, receiver, people["jonas"].login)
        filler.add_newest_activity()
        _wait_until_delivered(api, f"/repos{base}/hooks/{hook}/deliveries")
    names |= {"hook_id": str(hook), "delivery_id": str(failed), "name": "task"}
    names |= {"guide_folder": "team", "guide_name": "web-app"}
    return Demo(people, names)


def _add_hook(api: httpx.Client, base: str, receiver: Receiver) -> int:
    config = {"url": receiver.url, "content_type": "json", "secret": "a-secret-for-pictures", "retries": "0"}
    return int(call(api, "POST", f"/repos{base}/hooks", events=["*"], config=config)["id"])


def _fill_board(
    server: Server, api: httpx.Client, project: str, people: dict[str, Insider], names: dict[str, str]
) -> dict[str, str]:
    """Return the IDs of the tasks by title."""
    today, made = datetime.now(UTC), {}
    for title, cards in BOARD.items():
        facts = {"title": title, "stage": STAGES[title]}
        column = call(api, "POST", f"/api/v1/projects/{project}/columns", **facts)["column"]["id"]
        names.setdefault("column_id", column)
        for card in cards:
            values: dict[str, Any] = {name: card[name] for name in ("title", "priority", "labels") if name in card}
            if "days" in card:
                values["deadline"] = (today + timedelta(days=card["days"])).strftime("%Y-%m-%d")
            values["assignees"] = card.get("people", [])
            task = call(api, "POST", f"/api/v1/columns/{column}/tasks", **values)["task"]["id"]
            made[card["title"]] = task
            for login, words in card.get("comments", []):
                with server.client(people[login].token) as theirs:
                    call(theirs, "POST", f"/api/v1/tasks/{task}/task_comments", text=words)
    return made


def _deliver(api: httpx.Client, base: str, hook: int, receiver: Receiver, pusher: str) -> int:
    """Publish pushes, one of which fails and is redelivered. Return the ID of the failed attempt."""
    path = f"/repos{base}/hooks/{hook}/deliveries"
    _wait_until_delivered(api, path)
    for number in range(1, 9):
        receiver.reply = _refuse if number == 7 else _accept
        payload = {"ref": "refs/heads/main", "after": f"{number:040x}", "pusher": {"name": pusher}, "commits": number}
        call(api, "POST", f"/repos{base}/events", event="push", payload=payload)
        _wait_until_delivered(api, path)
    [failed] = call(api, "GET", f"{path}?status=failure")
    receiver.reply = _accept
    call(api, "POST", f"{path}/{failed['id']}/attempts")
    _wait_until_delivered(api, path)
    return int(failed["id"])


def _wait_until_delivered(api: httpx.Client, path: str) -> None:
    """Wait until no delivery is pending."""
    until(lambda: not call(api, "GET", path.replace("/deliveries", "/health"))["pending"])


def _accept(received: Received) -> Reply:
    return Reply(200, {"Content-Type": "application/json"}, b'{"deployed": true}')


def _refuse(received: Received) -> Reply:
    return Reply(503, {"Content-Type": "application/json", "Retry-After": "60"}, _BUSY)
