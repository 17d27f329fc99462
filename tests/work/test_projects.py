"""`/api/v1/projects`: what owners, members, collaborators and strangers can do, and the rules of every operation."""

from __future__ import annotations

import asyncio
import io
import json
import re
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any, Literal

import aiohttp
import msgspec
import pytest
import sqlalchemy as sa
import uvicorn
from jsonschema import Draft202012Validator
from msgspec import Meta

from workhook.asgi import build_app
from workhook.core.errors import Invalid
from workhook.events.catalog import CATALOG
from workhook.events.tables import events
from workhook.hooks.tables import dispatches, hooks
from workhook.http import parameters
from workhook.http.calls import Services
from workhook.identity import actions as people
from workhook.identity.queries import find_repository
from workhook.identity.schemas import Account
from workhook.identity.tables import audit_log
from workhook.storage import Row
from workhook.storage.metadata import insert_into
from workhook.work.board.projects import actions
from workhook.work.board.projects.actions import name_from, routes

PROJECT_KEYS = {
    "id", "repository_id", "title", "name", "full_name", "avatar", "private", "archive", "label_colors",
    "created_at", "updated_at",
}  # fmt: skip


class Reply:
    """An answer that was read to its end."""

    def __init__(self, status: int, headers: Mapping[str, str], body: Any) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def project(self) -> dict[str, Any]:
        assert self.status == 200, self.body
        assert self.body["success"] is True
        project: dict[str, Any] = self.body["project"]
        return project

    @property
    def titles(self) -> list[str]:
        assert self.status == 200, self.body
        return [each["title"] for each in self.body["projects"]]

    def faults(self) -> dict[str, str]:
        """What a refusal says, by field."""
        assert self.status == 422, self.body
        assert self.body["success"] is False
        assert self.body["code"] == "validation_failed"
        return {each["field"]: each["code"] for each in self.body["errors"]}


class Service:
    """A running server, and people who call it."""

    def __init__(self, services: Services, address: str, session: aiohttp.ClientSession) -> None:
        self.services, self.address, self._session = services, address, session
        self._tokens: dict[str, str] = {}
        self.accounts: dict[str, Account] = {}

    async def person(self, login: str, *scopes: str) -> None:
        async with self.services.database.transaction() as tx:
            user = await people.create_account(tx, "user", login, name=None, email=f"{login}@example.com")
            self._tokens[login] = (await people.issue_token(tx, user, list(scopes or ("work",)))).token
        self.accounts[login] = user

    async def organization(self, login: str, **members: str) -> None:
        """`members`: login=role."""
        async with self.services.database.transaction() as tx:
            made = await people.create_account(tx, "organization", login, name=None, email=None)
            for member, role in members.items():
                await people.set_member(tx, made, self.accounts[member], role)
        self.accounts[login] = made

    async def collaborator(self, full_name: str, login: str, role: str) -> None:
        async with self.services.database.transaction() as tx:
            owner, _, name = full_name.partition("/")
            repository = await find_repository(tx, owner, name)
            assert repository is not None
            await people.set_collaborator(tx, repository, self.accounts[login], role)

    async def hook(self, account: str, repository_id: int | None = None) -> int:
        """A webhook on every event; its id."""
        columns = ("account_id", "repository_id", "active", "events", "config", "version", "created_at", "updated_at")
        row: dict[str, object] = {
            "account_id": self.accounts[account].id,
            "repository_id": repository_id,
            "active": True,
            "version": 1,
        }
        row |= {"events": '["*"]', "config": "{}", "created_at": 0, "updated_at": 0}
        async with self.services.database.transaction() as tx:
            made = await tx.fetch_one(insert_into(hooks, *columns).returning(hooks.c.id), row)
            assert made is not None
            return int(made["id"])

    async def rows(self, table: sa.Table, **where: object) -> list[Row]:
        wanted = [table.c[name] == value for name, value in where.items()]
        order = next(iter(table.primary_key))
        return list(await self.services.database.fetch_all(sa.select(table).where(*wanted).order_by(order)))

    async def payloads(self) -> list[dict[str, Any]]:
        return [json.loads(row["payload"]) for row in await self.rows(events)]

    async def call(
        self,
        login: str | None,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        sent = dict(headers or {})
        if login is not None:
            sent["Authorization"] = f"Bearer {self._tokens[login]}"
        if body is not None:
            raw = json.dumps(body).encode()
        if raw is not None:
            sent.setdefault("Content-Type", "application/json")
        url = path if path.startswith("http") else f"{self.address}/api/v1{path}"
        data = None if raw is None else io.BytesIO(raw)
        async with self._session.request(method, url, data=data, params=query, headers=sent) as answer:
            text = await answer.text()
            return Reply(answer.status, answer.headers, json.loads(text) if text else None)

    async def make(self, login: str, title: str, **more: object) -> dict[str, Any]:
        return (await self.call(login, "POST", "/projects", {"title": title, **more})).project


class _Server(uvicorn.Server):
    """In this process, without the signal handlers that pytest keeps for itself."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready, self.over = asyncio.Event(), asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        """Uvicorn looks ten times a second whether it is over."""
        await self.on_tick(0)
        await self.over.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Without the tenth of a second in which answers could end: all have been read."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()


@asynccontextmanager
async def listening(services: Services) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as target:
        server = _Server(uvicorn.Config(build_app(services), log_config=None, lifespan="off"))
        running = asyncio.create_task(server.serve(sockets=[target]))
        async with asyncio.timeout(20):
            await server.ready.wait()
        try:
            yield f"http://127.0.0.1:{target.getsockname()[1]}"
        finally:
            server.over.set()
            await running


@pytest.fixture
async def service(services: Services) -> AsyncIterator[Service]:
    async with listening(services) as address, aiohttp.ClientSession() as session:
        made = Service(services, address, session)
        for login in ("octo", "mona", "stranger"):
            await made.person(login)
        await made.organization("acme", octo="owner", mona="member")
        yield made


# --- create and read ---------------------------------------------------------------------------------------------


async def test_a_project_is_created_in_the_only_organization_and_read_back(service: Service) -> None:
    made = await service.make("octo", "  Website redesign ")
    assert set(made) == PROJECT_KEYS
    assert re.fullmatch(r"prj_[0-9a-hjkmnp-tv-z]{26}", made["id"])
    assert (made["title"], made["name"]) == ("Website redesign", "website-redesign")
    assert made["full_name"] == "acme/website-redesign"
    assert (made["avatar"], made["private"], made["archive"]) == (None, False, False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", made["created_at"])
    assert made["updated_at"] == made["created_at"]
    assert (await service.call("mona", "GET", f"/projects/{made['id']}")).project == made


async def test_parameters_come_from_the_query_or_the_body_and_the_body_wins(service: Service) -> None:
    query = {"title": "From the query", "private": "true", "avatar": "https://cdn.example.com/a.png"}
    empty = {"Content-Type": "application/json"}
    by_query = (await service.call("octo", "POST", "/projects", query=query, headers=empty)).project
    assert (by_query["title"], by_query["private"], by_query["avatar"]) == (query["title"], True, query["avatar"])
    by_both = (await service.call("octo", "POST", "/projects", {"title": "From the body"}, query=query)).project
    assert (by_both["title"], by_both["private"]) == ("From the body", True)
    cleared = await service.call("octo", "PATCH", f"/projects/{by_both['id']}", query={"avatar": "", "private": "0"})
    assert (cleared.project["avatar"], cleared.project["private"]) == (None, False)


async def test_a_label_has_the_colour_that_a_project_gives_it(service: Service) -> None:
    made = await service.make("octo", "Website")
    assert made["label_colors"] == {}
    path, colors = f"/projects/{made['id']}", {"Urgent": "red", "Größe": "sky"}
    edited = (await service.call("octo", "PATCH", path, {"label_colors": colors})).project
    assert edited["label_colors"] == colors
    assert (await service.call("octo", "PATCH", path, {"title": "Site"})).project["label_colors"] == colors
    again = (await service.call("octo", "PATCH", path, {"label_colors": colors})).project
    assert again == (await service.call("octo", "GET", path)).project
    for wrong in ({"Urgent": "crimson"}, {"": "red"}, {"x" * 256: "red"}, {str(at): "red" for at in range(201)}, None):
        refused = await service.call("octo", "PATCH", path, {"label_colors": wrong})
        assert "invalid" in refused.faults().values(), wrong
    assert (await service.call("octo", "PATCH", path, {"label_colors": {}})).project["label_colors"] == {}


async def test_every_wrong_field_is_named_at_once(service: Service) -> None:
    body = {
        "title": "   ",
        "avatar": "ftp://example.com/a",
        "private": "true",  # in a body a boolean is a boolean
        "archive": None,
        "name": "..",
        "organization": 7,
        "colour": "red",
    }
    refused = await service.call("octo", "POST", "/projects", body, query={"size": "1"})
    assert refused.faults() == {
        "title": "invalid", "avatar": "invalid", "private": "invalid", "archive": "invalid", "name": "invalid",
        "organization": "invalid", "colour": "unknown", "size": "unknown",
    }  # fmt: skip
    messages = {each["field"]: each["message"] for each in refused.body["errors"]}
    assert messages["title"] == "title must be text of 1 to 255 characters"
    assert messages["avatar"] == "avatar must be an http or https URL"
    assert refused.body["request_id"] == refused.headers["X-Request-Id"]
    assert (await service.call("octo", "POST", "/projects")).faults() == {"title": "missing"}
    assert (await service.call("octo", "POST", "/projects", query={"title": "a", "private": "maybe"})).faults() == {
        "private": "invalid"
    }
    assert (await service.call("octo", "GET", "/projects")).titles == []
    assert await service.payloads() == []


@pytest.mark.one_database
@pytest.mark.parametrize("title", ["a" * 256, "", "\t", "a\0b", 7, None, ["a"]])
async def test_a_bad_title_is_refused(service: Service, title: object) -> None:
    assert (await service.call("octo", "POST", "/projects", {"title": title})).faults() == {"title": "invalid"}


async def test_a_title_is_counted_in_characters_after_trimming(service: Service) -> None:
    longest = "ü" * 255
    assert (await service.make("octo", f" {longest} "))["title"] == longest


@pytest.mark.parametrize(
    ("raw", "media_type", "status", "code"),
    [
        (b'{"title": ', "application/json", 400, "malformed"),
        (b'["title"]', "application/json", 400, "malformed"),
        (b'{"title": "\xff"}', "application/json", 400, "malformed"),
        (b"title=a", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
        (b'{"title": "' + b"a" * 2**20 + b'"}', "application/json", 413, "too_large"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused(
    service: Service, raw: bytes, media_type: str, status: int, code: str
) -> None:
    refused = await service.call("octo", "POST", "/projects", raw=raw, headers={"Content-Type": media_type})
    assert (refused.status, refused.body["success"], refused.body["code"]) == (status, False, code)


# --- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Website", "website"),
        ("  Büro -- Website 2.0! ", "buro-website-2-0"),
        ("Straße", "strasse"),
        ("ﬁle Ⅳ", "file-iv"),
        ("日本語", "project"),
        ("---", "project"),
        ("a" * 99 + " b", "a" * 99),
        ("repo.git", "repo-git"),
    ],
)
def test_a_name_is_made_from_the_title(title: str, name: str) -> None:
    assert name_from(title) == name


async def test_a_repeated_title_gets_a_suffix(service: Service) -> None:
    names = [(await service.make("octo", title))["name"] for title in ("Website", "website!", "Website 2", "WEBSITE")]
    assert names == ["website", "website-2", "website-2-2", "website-3"]
    long = [(await service.make("octo", "b" * 200))["name"] for _ in range(3)]
    assert long == ["b" * 100, "b" * 98 + "-2", "b" * 98 + "-3"]


async def test_projects_that_are_created_at_once_have_different_names(service: Service) -> None:
    made = await asyncio.gather(*(service.make("octo", "Website") for _ in range(8)))
    assert sorted(each["name"] for each in made) == ["website", *(f"website-{n}" for n in range(2, 9))]


async def test_a_name_can_be_chosen_but_not_one_that_is_taken(service: Service) -> None:
    made = await service.make("octo", "Website", name="Acme.Site_1")
    assert made["full_name"] == "acme/Acme.Site_1"
    taken = await service.call("octo", "POST", "/projects", {"title": "Other", "name": "acme.SITE_1"})
    assert taken.faults() == {"name": "already_exists"}
    other = await service.make("octo", "Other")
    renamed = await service.call("octo", "PATCH", f"/projects/{other['id']}", {"name": "ACME.site_1"})
    assert renamed.faults() == {"name": "already_exists"}
    own = await service.call("octo", "PATCH", f"/projects/{made['id']}", {"name": "acme.site_1"})
    assert own.project["full_name"] == "acme/acme.site_1"


@pytest.mark.one_database
@pytest.mark.parametrize("name", [".", "..", "a/b", "a b", "", "website.git", "Website.GIT", "a" * 101, "a\n", "ä"])
async def test_a_name_that_no_path_can_hold_is_refused(service: Service, name: str) -> None:
    assert (await service.call("octo", "POST", "/projects", {"title": "a", "name": name})).faults() == {
        "name": "invalid"
    }


async def test_editing_the_title_keeps_the_name(service: Service) -> None:
    made = await service.make("octo", "Website")
    edited = (await service.call("octo", "PATCH", f"/projects/{made['id']}", {"title": "Intranet"})).project
    assert (edited["title"], edited["name"]) == ("Intranet", "website")


# --- whose project -----------------------------------------------------------------------------------------------


async def test_who_is_in_several_organizations_names_one(service: Service) -> None:
    await service.organization("globex", octo="member")
    assert (await service.call("octo", "POST", "/projects", {"title": "a"})).faults() == {"organization": "missing"}
    assert (await service.make("octo", "a", organization="GLOBEX"))["full_name"] == "globex/a"
    assert (await service.make("octo", "a", organization="Octo"))["full_name"] == "octo/a"
    for elsewhere in ("initech", "mona"):
        refused = await service.call("octo", "POST", "/projects", {"title": "a", "organization": elsewhere})
        assert refused.faults() == {"organization": "invalid"}


async def test_who_is_in_no_organization_owns_projects(service: Service) -> None:
    made = await service.make("stranger", "Notes", private=True)
    assert made["full_name"] == "stranger/notes"
    assert (await service.call("octo", "GET", f"/projects/{made['id']}")).status == 404
    refused = await service.call("stranger", "POST", "/projects", {"title": "a", "organization": "acme"})
    assert refused.faults() == {"organization": "invalid"}


# --- who may -----------------------------------------------------------------------------------------------------


@pytest.mark.one_database
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize(
    ("role", "private_status", "reads", "edits", "deletes"),
    [
        ("owner", 200, 200, 200, 200),
        ("member", 404, 200, 200, 403),
        ("read", 200, 200, 403, 403),
        ("write", 200, 200, 200, 403),
        ("admin", 200, 200, 200, 200),
        ("stranger", 404, 404, 404, 404),
    ],
)
async def test_each_role_may_what_the_page_says(
    service: Service, role: str, private: bool, private_status: int, reads: int, edits: int, deletes: int
) -> None:
    project = await service.make("octo", "Website", private=private)
    await service.person("caller")
    if role in ("owner", "member"):
        async with service.services.database.transaction() as tx:
            await people.set_member(tx, service.accounts["acme"], service.accounts["caller"], role)
    elif role != "stranger":
        await service.collaborator(project["full_name"], "caller", role)
    hidden = private and private_status == 404
    path = f"/projects/{project['id']}"
    listed = (await service.call("caller", "GET", "/projects")).titles
    assert listed == (["Website"] if not hidden and reads == 200 else [])
    for method, expected in (("GET", reads), ("PATCH", edits), ("DELETE", deletes)):
        body = {"title": "New"} if method == "PATCH" else None
        answer = await service.call("caller", method, path, body)
        assert answer.status == (404 if hidden else expected), method
        if answer.status == 403:
            assert answer.body["code"] == "missing_role"
            assert ("write" if method == "PATCH" else "admin") in answer.body["message"]


async def test_a_member_stays_in_what_it_makes_private(service: Service) -> None:
    made = await service.make("mona", "Secret", private=True)
    assert (await service.call("mona", "GET", f"/projects/{made['id']}")).project == made
    shared = await service.make("mona", "Shared")
    path = f"/projects/{shared['id']}"
    assert (await service.call("mona", "PATCH", path, {"private": True})).project["private"] is True
    assert (await service.call("mona", "PATCH", path, {"title": "Ours"})).project["title"] == "Ours"
    assert (await service.call("octo", "PATCH", path, {"title": "Mine"})).project["private"] is True
    for each in (shared, made):
        assert (await service.call("mona", "DELETE", f"/projects/{each['id']}")).body == {"success": True}


@pytest.mark.one_database
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("role", ["member", "write", "admin", "owner"])
async def test_who_sees_a_project_and_its_name_are_for_admins(service: Service, role: str, private: bool) -> None:
    """A writer could show a private project to the whole organization, or shut a member out of an open one."""
    project = await service.make("octo", "Website", private=private)
    path = f"/projects/{project['id']}"
    await service.person("caller")
    if role in ("owner", "member"):
        async with service.services.database.transaction() as tx:
            await people.set_member(tx, service.accounts["acme"], service.accounts["caller"], role)
    if role == "member" and private:
        await service.collaborator(project["full_name"], "caller", "write")
    elif role in ("write", "admin"):
        await service.collaborator(project["full_name"], "caller", role)
    told = len(await service.payloads())
    bodies: tuple[dict[str, object], ...] = (
        {"private": not private, "title": "Taken"},
        {"name": "taken"},
        {"private": not private, "name": "taken"},
    )
    for body in bodies:
        answer = await service.call("caller", "PATCH", path, body)
        if role in ("admin", "owner"):
            assert answer.status == 200
            assert (await service.call("caller", "PATCH", path, {"private": private, "name": "website"})).status == 200
            continue
        assert (answer.status, answer.body["code"]) == (403, "missing_role")
        assert "admin" in answer.body["message"]
        assert all(f"`{each}`" in answer.body["message"] for each in body if each != "title")
        assert [each["field"] for each in answer.body["errors"]] == [each for each in body if each != "title"]
    if role in ("admin", "owner"):
        return
    assert len(await service.payloads()) == told
    assert (await service.call("octo", "GET", path)).project == project
    # What is so already is no change of it, and the rest is for writers as before.
    same = {"private": private, "name": project["name"], "title": "New", "archive": True}
    assert (await service.call("caller", "PATCH", path, same)).project["title"] == "New"


async def test_a_token_needs_the_scope(service: Service) -> None:
    project = await service.make("octo", "Website")
    await service.person("reader", "work:read")
    await service.person("hooker", "repo")
    for login in ("reader", "hooker"):
        await service.collaborator(project["full_name"], login, "admin")
    assert (await service.call("reader", "GET", f"/projects/{project['id']}")).status == 200
    for login, method, path, scope in (
        ("reader", "POST", "/projects", "work"),
        ("reader", "PATCH", f"/projects/{project['id']}", "work"),
        ("reader", "DELETE", f"/projects/{project['id']}", "work"),
        ("hooker", "GET", "/projects", "work:read"),
    ):
        refused = await service.call(login, method, path)
        assert (refused.status, refused.body["code"]) == (403, "missing_scope")
        assert scope in refused.body["message"]
    nobody = await service.call(None, "GET", "/projects")
    assert (nobody.status, nobody.headers["WWW-Authenticate"]) == (401, "Bearer")


async def test_a_method_that_is_not_there_is_answered_with_those_that_are(service: Service) -> None:
    refused = await service.call("octo", "PUT", "/projects/prj_x")
    assert (refused.status, refused.body["success"]) == (405, False)
    assert set(refused.headers["Allow"].split(", ")) == {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH"}


# --- edit, archive, delete ---------------------------------------------------------------------------------------


async def test_an_edit_keeps_what_is_absent_and_clears_what_is_null(service: Service) -> None:
    made = await service.make("octo", "Website", avatar="https://cdn.example.com/a.png", private=True)
    path = f"/projects/{made['id']}"
    edited = (await service.call("octo", "PATCH", path, {"avatar": None})).project
    changed = {name for name in made if made[name] != edited[name]}
    assert changed == {"avatar", "updated_at"}
    assert edited["avatar"] is None
    assert edited["updated_at"] > made["updated_at"]
    assert (await service.call("octo", "PATCH", path, {"title": None, "owner": 1})).faults() == {
        "title": "invalid", "owner": "unknown",
    }  # fmt: skip
    assert (await service.call("octo", "GET", path)).project == edited


@pytest.mark.parametrize("body", [{}, None, {"title": "Website", "private": False, "archive": False}])
async def test_an_edit_that_changes_nothing_leaves_no_trace(service: Service, body: object) -> None:
    made = await service.make("octo", "Website")
    assert (await service.call("octo", "PATCH", f"/projects/{made['id']}", body)).project == made
    assert len(await service.payloads()) == 1


async def test_an_archived_project_is_not_changed_but_taken_up_again(service: Service) -> None:
    made = await service.make("octo", "Website")
    path = f"/projects/{made['id']}"
    assert (await service.call("octo", "PATCH", path, {"archive": True})).project["archive"] is True
    for body in ({"title": "New"}, {"title": "New", "archive": True}):
        refused = await service.call("octo", "PATCH", path, body)
        assert (refused.status, refused.body["code"]) == (409, "archived")
    assert (await service.call("octo", "PATCH", path, {"archive": True})).status == 200
    again = (await service.call("octo", "PATCH", path, {"archive": False, "title": "New"})).project
    assert (again["archive"], again["title"]) == (False, "New")
    assert [each["action"] for each in await service.payloads()] == ["created", "archived", "unarchived"]
    await service.call("octo", "PATCH", path, {"archive": True})
    assert (await service.call("octo", "DELETE", path)).status == 200


async def test_a_deleted_project_is_gone_and_its_name_is_free(service: Service) -> None:
    first = await service.make("octo", "Website")
    deleted = await service.call("octo", "DELETE", f"/projects/{first['id']}")
    assert (deleted.status, deleted.body) == (200, {"success": True})
    for method in ("GET", "PATCH", "DELETE"):
        assert (await service.call("octo", method, f"/projects/{first['id']}")).status == 404
    assert (await service.call("octo", "GET", "/projects")).titles == []
    second = await service.make("octo", "Website")
    assert second["name"] == "website"
    assert second["repository_id"] != first["repository_id"]
    await service.call("octo", "DELETE", f"/projects/{second['id']}")  # the name is given up a second time
    assert (await service.make("octo", "Website"))["name"] == "website"


# --- conditions --------------------------------------------------------------------------------------------------


async def test_a_change_can_be_bound_to_what_was_read(service: Service) -> None:
    made = await service.make("octo", "Website")
    path = f"/projects/{made['id']}"
    seen = (await service.call("octo", "GET", path)).headers["ETag"]
    assert (await service.call("octo", "GET", path, headers={"If-None-Match": seen})).status == 304
    if_seen = {"If-Match": f'"other", {seen}'}
    assert (await service.call("octo", "PATCH", path, {"title": "First"}, headers=if_seen)).status == 200
    for method, body in (("PATCH", {"title": "Second"}), ("DELETE", None)):
        refused = await service.call("octo", method, path, body, headers=if_seen)
        assert (refused.status, refused.body["code"]) == (412, "precondition_failed")
    assert (await service.call("octo", "GET", path)).project["title"] == "First"
    assert (await service.call("octo", "DELETE", path, headers={"If-Match": "*"})).status == 200


async def test_of_two_changes_bound_to_the_same_reading_one_is_made(service: Service) -> None:
    made = await service.make("octo", "Website")
    path = f"/projects/{made['id']}"
    if_seen = {"If-Match": (await service.call("octo", "GET", path)).headers["ETag"]}
    titles = [f"Title {n}" for n in range(6)]
    answers = await asyncio.gather(
        *(service.call("octo", "PATCH", path, {"title": title}, headers=if_seen) for title in titles)
    )
    assert sorted(each.status for each in answers) == [200, 412, 412, 412, 412, 412]


# --- lists -------------------------------------------------------------------------------------------------------


def next_of(reply: Reply) -> str | None:
    found = re.fullmatch(r'<([^>]+)>; rel="next"', reply.headers.get("Link", ""))
    return found and found[1]


async def test_a_list_is_whole_or_in_pages_by_id(service: Service) -> None:
    made = [await service.make("octo", f"P{n}", private=n == 2) for n in range(5)]
    whole = await service.call("octo", "GET", "/projects")
    assert [each["id"] for each in whole.body["projects"]] == sorted(each["id"] for each in made)
    assert next_of(whole) is None
    pages, seen, url = 0, [], "/projects?per_page=2"
    while url:
        reply = await service.call("mona", "GET", url)
        seen += [each["id"] for each in reply.body["projects"]]
        pages, url = pages + 1, next_of(reply) or ""
    assert pages == 2
    assert seen == sorted(each["id"] for each in made if not each["private"])


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("query", "field", "code"),
    [
        ({"per_page": "101"}, "per_page", "invalid"),
        ({"per_page": "0"}, "per_page", "invalid"),
        ({"per_page": "many"}, "per_page", "invalid"),
        ({"cursor": "nonsense"}, "cursor", "invalid"),
        ({"cursor": "v1_Wzdd"}, "cursor", "invalid"),
        ({"cursor": "v1_ü"}, "cursor", "invalid"),
        ({"colour": "red"}, "colour", "unknown"),
    ],
)
async def test_a_list_refuses_what_it_does_not_know(
    service: Service, query: dict[str, str], field: str, code: str
) -> None:
    assert (await service.call("octo", "GET", "/projects", query=query)).faults() == {field: code}


# --- events ------------------------------------------------------------------------------------------------------


async def test_each_change_is_one_event_that_the_catalogue_describes(service: Service) -> None:
    made = await service.make("octo", "Website")
    path = f"/projects/{made['id']}"
    await service.collaborator(made["full_name"], "mona", "admin")
    edited = (await service.call("mona", "PATCH", path, {"title": "Intranet", "private": True})).project
    archived = (await service.call("octo", "PATCH", path, {"archive": True, "title": "Old"})).project
    await service.call("octo", "PATCH", path, {"archive": False})
    await service.call("octo", "DELETE", path)
    payloads = await service.payloads()
    assert [each["action"] for each in payloads] == ["created", "edited", "archived", "unarchived", "deleted"]
    schema = CATALOG["project"].schema
    assert schema is not None
    for payload in payloads:
        Draft202012Validator(schema).validate(payload)
        assert payload["organization"]["login"] == "acme"
        assert payload["repository"]["id"] == made["repository_id"]
        assert payload["repository"]["url"] == f"{service.address}/repos/acme/website"
    assert payloads[0]["project"] == made
    assert payloads[0]["sender"]["login"] == payloads[0]["sender"]["username"] == "octo"
    assert "changes" not in payloads[0]
    assert payloads[1]["project"] == edited
    assert payloads[1]["sender"]["login"] == "mona"
    assert payloads[1]["changes"] == {
        "title": {"from": "Website", "to": "Intranet"},
        "private": {"from": False, "to": True},
    }
    assert payloads[2]["project"] == archived
    assert set(payloads[2]["changes"]) == {"title", "archive"}


async def test_hooks_of_the_organization_and_the_repository_get_the_events(service: Service) -> None:
    of_organization = await service.hook("acme")
    made = await service.make("octo", "Website")
    of_repository = await service.hook("acme", made["repository_id"])
    other = await service.make("octo", "Other")
    of_another = await service.hook("acme", other["repository_id"])
    await service.call("octo", "PATCH", f"/projects/{made['id']}", {"title": "New"})
    await service.call("octo", "DELETE", f"/projects/{made['id']}")

    async def heard(hook_id: int) -> list[str]:
        actions = {row["id"]: row["action"] for row in await service.rows(events)}
        return [actions[row["event_id"]] for row in await service.rows(dispatches, hook_id=hook_id)]

    assert await heard(of_organization) == ["created", "created", "edited", "deleted"]
    assert await heard(of_repository) == ["edited", "deleted"]
    assert await heard(of_another) == []


async def test_a_refused_change_leaves_no_event_and_no_audit(service: Service) -> None:
    made = await service.make("octo", "Website")
    assert (await service.call("mona", "DELETE", f"/projects/{made['id']}")).status == 403
    assert (await service.call("octo", "PATCH", f"/projects/{made['id']}", {"name": "."})).status == 422
    done = await service.rows(audit_log, status=None)  # that it was refused is noted, a moment later
    assert [row["action"] for row in done] == ["project.create"]


async def test_each_change_is_in_the_audit_log(service: Service) -> None:
    made = await service.make("octo", "Website")
    await service.call("mona", "PATCH", f"/projects/{made['id']}", {"title": "New"})
    await service.call("octo", "DELETE", f"/projects/{made['id']}")
    log = await service.rows(audit_log)
    assert [row["action"] for row in log] == ["project.create", "project.edit", "project.delete"]
    assert [row["actor_id"] for row in log] == [service.accounts[login].id for login in ("octo", "mona", "octo")]
    assert {row["target"] for row in log} == {"acme/website"}
    assert json.loads(log[1]["detail"]) == {"title": {"from": "Website", "to": "New"}}


async def test_a_change_whose_event_cannot_be_written_is_not_made(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction: there is no change without its event."""

    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no event")

    monkeypatch.setattr(actions, "publish_audited", fail)
    refused = await service.call("octo", "POST", "/projects", {"title": "Website"})
    assert (refused.status, refused.body["code"]) == (500, "internal_error")
    assert "no event" not in refused.body["message"]
    assert (await service.call("octo", "GET", "/projects")).titles == []


# --- the readers that other resources share ----------------------------------------------------------------------


class Filters(msgspec.Struct):
    count: Annotated[int, Meta(ge=1, le=9)] | msgspec.UnsetType = msgspec.UNSET
    priority: Literal["low", "high"] | msgspec.UnsetType | None = msgspec.UNSET
    labels: list[str] | msgspec.UnsetType = msgspec.UNSET
    notes: parameters.LongText | msgspec.UnsetType = msgspec.UNSET
    fields: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


def test_text_of_a_query_becomes_what_the_field_is() -> None:
    query = {"count": ["3"], "priority": [""], "labels": ["a", "b"], "notes": ["null"]}
    found = parameters.gather(Filters, query, {"fields": {"a": "b"}})
    assert found == Filters(count=3, priority=None, labels=["a", "b"], notes="null", fields={"a": "b"})
    assert parameters.gather(Filters, {}, {}) == Filters()


def test_what_a_field_has_to_be_is_said_in_words() -> None:
    body = {"count": 10, "priority": "middle", "labels": "a", "notes": "ü" * 32_769, "fields": {"a": "\0"}}
    with pytest.raises(Invalid) as refused:
        parameters.gather(Filters, {}, body)
    assert [fault.message for fault in refused.value.faults] == [
        "count must be a whole number from 1 to 9",
        "priority must be one of high, low or null",
        "labels must be a list of text",
        "notes must be at most 64 KiB of text",
        "fields must be without NUL characters",
    ]


def test_the_document_shows_the_limits_that_are_enforced() -> None:
    shown = {each.name: each for each in parameters.documented(Filters)}
    assert shown["count"].schema == {"type": "integer", "minimum": 1, "maximum": 9}
    create = next(each for each in routes if each.name == "create_project")
    title = next(each for each in create.query if each.name == "title")
    assert title.schema == {"type": "string", "minLength": 1, "maxLength": 255}
    assert not title.required  # it may come in the body
