"""A studio on SQLite in which every table has rows and one delivery is pending."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import httpx

from tests.api.oauth_kit import DEVICE_GRANT, Site, new_pkce
from tests.harness import forge
from tests.harness.databases import SqliteDatabases
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World, add_user
from tests.walls.dump import Dump, Reader
from tests.walls.world import build_walls
from tests.web.browser import Browser, add_link, add_person
from tests.work.paper import png
from tests.work.trello import encoded, make_export
from workhook.core.clock import HOUR_MS, now_ms
from workhook.http.calls import Services
from workhook.identity.mail.links import queue_own_link
from workhook.identity.mail.recipients import record_language
from workhook.identity.tokens.lookup import find_actor

SETTINGS = {"api_rate_limit": 100_000}
UNICODE = "Größe 👩‍🎨 \\N \t ' \" \n ​"


class Filled:
    """A data folder that no process uses.

    `waiting` is the mark in the payload of the event that is still to be delivered.
    """

    waiting = "still-to-be-sent"

    def __init__(self, folder: Path, token: str, repo_path: str, hook_path: str, dump: Dump) -> None:
        self.folder, self.token, self.repo_path, self.hook_path, self.dump = folder, token, repo_path, hook_path, dump

    def copied(self, folder: Path) -> Path:
        """Copy the data folder and return the path of its database file."""
        shutil.copytree(self.folder, folder)
        return folder / "workhook.db"


def fill(folder: Path) -> Filled:
    data, receiver = folder / "data", Receiver()
    SqliteDatabases(folder).new(data)
    server = Server(data, SETTINGS, command=("serve", "--port", "0", "--no-worker")).start()
    worker = Server(data, SETTINGS, command=("worker",)).start()
    reader = Reader(server)
    try:
        walls = build_walls(server, worker, reader, receiver)
        _people(server)
        _oauth(server)
        _import(server, walls.beyond.world.organization, folder)
        _receiver(server, walls.beyond.world)
        _mail(server)
        _calendar(server, walls.beyond.world)
        _forms(server, walls.beyond.world)
        _mention(server, walls.beyond.world)
        _number(server, walls.beyond.world)
        world, token = walls.beyond.world, walls.beyond.world.token
        task = walls.site.scene.task(assignees=[walls.site.cast.people["owner"].login])
        walls.site.owners["classic"].client.patch(
            f"/api/v1/tasks/{task}", json={"title": UNICODE, "description": UNICODE}
        ).raise_for_status()
        with server.client(token) as client:
            config = {"url": f"{receiver.url}?second"}  # another webhook has the URL itself
            hook = client.post(f"{world.repo_path}/hooks", json={"config": config, "events": ["push"]})
            assert hook.status_code == 201, hook.text
            worker.start()  # it is killed, so that its row remains
            until(lambda: "ping" in {each.event for each in receiver.requests})
            until(lambda: reader.dump()["workers"])
            until(lambda: reader.dump()["timesheet_sums"])
            worker.kill()
            _spend(client, world.project_id)
            commits = [{"id": "c0ffee", "message": f"Closes #{_to_close(client, world.project_id)}"}]
            pushed = {"mark": Filled.waiting, "ref": "refs/heads/main", "commits": commits}
            body = {"event": "push", "payload": pushed, "id": "a-key"}
            sent = client.post(f"{world.repo_path}/events", json=body)
            assert sent.status_code == 202, sent.text
            assert client.get("/readyz").status_code == 200
        hook_path = f"{world.repo_path}/hooks/{hook.json()['id']}"
        server.stop()
        filled = Filled(data, token, world.repo_path, hook_path, reader.dump())
        walls.close()
    finally:
        reader.close()
        worker.close()
        server.close()
        receiver.close()
    return filled


def _to_close(client: httpx.Client, project_id: str) -> int:
    """Return the number of a task that a commit can close."""
    paths = [f"/api/v1/projects/{project_id}/columns"]
    for more in ({"finished": True}, {}):
        made = client.post(paths[0], json={"title": "Closing", **more}).raise_for_status().json()
        paths.append(f"/api/v1/columns/{made['column']['id']}/tasks")
    task = client.post(paths[-1], json={"title": "To close"}).raise_for_status().json()["task"]
    return int(task["number"])


def _spend(client: httpx.Client, project_id: str) -> None:
    """Add time entries which are not yet summed up."""
    projects = f"/api/v1/projects/{project_id}"
    column = client.post(f"{projects}/columns", json={"title": "To do"}).raise_for_status().json()["column"]["id"]
    task = (
        client.post(f"/api/v1/columns/{column}/tasks", json={"title": "Copy"}).raise_for_status().json()["task"]["id"]
    )
    waiting = {"title": "Later", "blocked_by": [task], "parent_id": task}
    client.post(f"/api/v1/columns/{column}/tasks", json=waiting).raise_for_status()
    client.post(f"{projects}/timesheets", json={"task_id": task, "duration": 60_000}).raise_for_status()


def _people(server: Server) -> None:
    person = add_person(server)
    add_link(server, person)
    with Browser(server) as browser:
        assert browser.sign_in(person, "wrong").status_code == 422
        assert browser.sign_in(person).status_code == 303
    _command(server, "user", "link-identity", "--login", person.login, "--issuer", "https://id.example", "--subject=1")


def _oauth(server: Server) -> None:
    site = Site(server)
    verifier, challenge = new_pkce()
    site.token(site.app, code=site.octo.code(site.app, **challenge), code_verifier=verifier)
    site.octo.code(site.app, **challenge)
    begun = site.http.post(
        "/login/device/code", data={"client_id": site.app.id}, headers={"Accept": "application/json"}
    )
    site.token(site.app, grant_type=DEVICE_GRANT, device_code=begun.json()["device_code"])
    with server.client(site.octo_token) as client:
        made = client.post(f"/orgs/{site.world.organization}/invitations", json={"email": "new@example.com"})
        assert made.status_code == 201, made.text
    site.close()


def _import(server: Server, organization: str, folder: Path) -> None:
    board = folder / "board.json"
    board.write_bytes(encoded(make_export(lists=4, closed_lists=1, cards=60, closed=5, actions=60, comments=20)))
    _command(server, "import", "trello", str(board), "--organization", organization)


def _receiver(server: Server, world: World) -> None:
    """Add a built-in receiver and a request to it. Its webhook is inactive, so that no delivery to it is pending."""
    with Browser.of(server, world.owner) as browser:
        assert browser.fill_csrf(f"/{world.full_name}/webhooks/receiver").status_code == 303
    with server.client(world.token) as client:
        hooks = client.get(f"{world.repo_path}/hooks").json()
        [hook] = [each for each in hooks if "/receive/" in each["config"]["url"]]
        client.patch(f"{world.repo_path}/hooks/{hook['id']}", json={"active": False}).raise_for_status()
        client.post(hook["config"]["url"], content=UNICODE.encode()).raise_for_status()


def _mail(server: Server) -> None:
    """Queue a message with a link, and store the language of its recipient."""
    person = add_person(server)

    async def add(services: Services) -> None:
        async with services.database.transaction() as tx:
            record_language(tx, person.id, "de")
            now = now_ms()
            ends = {"expires_at": now + HOUR_MS, "now": now}
            await queue_own_link(tx, services.vault, person.id, "sign_in_link", f"/login/link/{UNICODE}", **ends)

    server.run(add)


def _calendar(server: Server, world: World) -> None:
    """Add a calendar feed."""
    with Browser.of(server, world.owner) as browser:
        made = browser.fill_csrf(f"/{world.full_name}/calendar/feed/renew", feed="project")
        assert made.status_code == 200, made.text


def _forms(server: Server, world: World) -> None:
    """Submit a form, and use the filters of a board."""
    with Browser.of(server, world.owner) as browser:
        assert browser.fill_csrf(f"/{world.full_name}/columns", title=UNICODE).status_code == 303
        assert browser.fill_csrf(f"/{world.full_name}/board/filters", q=UNICODE).status_code == 303


def _mention(server: Server, world: World) -> None:
    """Mention a member in a comment on a task, and set the member's cost rate."""

    async def add(services: Services) -> str:
        actor = await find_actor(services.database, await add_user(services, world, member="member"))
        assert actor is not None
        return actor.user.login

    login = server.run(add)
    with server.client(world.token) as client:

        def make(path: str, **body: str) -> Any:
            return client.post(f"/api/v1{path}", json=body).raise_for_status().json()

        column = make(f"/projects/{world.project_id}/columns", title="To do")["column"]["id"]
        task = make(f"/columns/{column}/tasks", title="Copy")["task"]["id"]
        make(f"/tasks/{task}/task_comments", text=f"@{login} {UNICODE}")
        chosen = {"payment": {"inbox": False}}
        client.patch("/api/v1/me/notification_settings", json=chosen).raise_for_status()
        rates = {"rates": [{"username": login, "hourly_rate": 80}]}
        client.patch(f"/api/v1/projects/{world.project_id}/billing", json=rates).raise_for_status()
        member = f"/api/v1/organizations/{world.organization}/members/{login}"
        client.patch(member, json={"hourly_rate": 70}).raise_for_status()


def _number(server: Server, world: World) -> None:
    """Send an invoice with a number per year and a time zone, for an account that has a logo and a tax number."""
    with server.client(world.token) as client:
        settings = f"/api/v1/organizations/{world.organization}/billing"
        says = {"number_format": "{year}-{number}", "timezone": "Pacific/Auckland", "tax_number": "21/815/08150"}
        client.patch(settings, json=says).raise_for_status()
        lines = [{"description": UNICODE, "qty": 1, "unit_price": 1}]
        made = client.post(f"/api/v1/projects/{world.project_id}/invoices", json={"invoice_items": lines})
        client.post(f"/api/v1/invoices/{made.json()['invoice']['id']}/send").raise_for_status()
        client.patch(settings, json={"number_format": None}).raise_for_status()
        client.put(f"{settings}/logo", files={"file": ("logo.png", png())}).raise_for_status()


def _command(server: Server, *words: str) -> Any:
    done = forge.run((*words, "--json"), server.environment())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
