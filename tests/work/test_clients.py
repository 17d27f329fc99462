"""Clients: who invites them, who they turn out to be, and what they see."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.harness.apps import make_app
from tests.harness.receiver import Receiver
from tests.work.studio import Caller, Studio
from workhook.http.calls import Services
from workhook.identity.actions import issue_token
from workhook.identity.queries import find_account
from workhook.work.clients.api import first_free, login_from

KEYS = {"id", "username", "email", "created_at", "updated_at"}


@pytest.fixture
def clients(studio: Studio) -> str:
    return f"{studio.project}/clients"


def _token(studio: Studio, username: str) -> Caller:
    """A client's own, as `workhook token create` makes it."""

    async def issue(services: Services) -> str:
        async with services.database.transaction() as tx:
            user = await find_account(tx, username)
            assert user is not None
            return (await issue_token(tx, user, ["work"])).token

    return studio._caller(studio.server.run(issue))


def _unique(studio: Studio, name: str) -> str:
    return f"{name}.{studio.world.owner}"


# --- invite ----------------------------------------------------------------------------------------------------------


def test_somebody_new_is_invited_and_sees_the_project(studio: Studio, clients: str) -> None:
    email = f"{_unique(studio, 'Jo')}@Customer.example"
    answer = studio.member.post(clients, json={"email": f" {email} "})
    assert set(answer) == {"success", "client"}
    client = answer["client"]
    assert set(client) == KEYS
    assert re.fullmatch(r"cli_[0-9a-z]{26}", client["id"])
    assert (client["email"], client["username"]) == (email, login_from(email))
    assert client["created_at"] == client["updated_at"]
    [added] = studio.happened()
    assert (added.name, added.action, added.record) == ("client", "added", client)
    assert added.payload["sender"]["id"] == studio.member.me["id"]
    invited = _token(studio, client["username"])
    assert invited.get(studio.project)["project"]["id"] == studio.project_id
    assert invited.get(f"/clients/{client['id']}")["client"] == client
    assert studio.owner.get(f"/clients/{client['id']}")["client"] == client


def test_the_name_of_the_account_can_be_chosen(studio: Studio, clients: str) -> None:
    name = f"ann-{studio.world.owner}"[:39]
    params = {"email": f"{name}@a.example", "username": name}
    assert studio.owner.post(clients, params=params)["client"]["username"] == name
    assert studio.owner.faults("POST", clients, json={"email": "other@a.example", "username": name.upper()}) == {
        "username": "already_exists"
    }
    taken = {"email": "other@a.example", "username": studio.world.organization}
    assert studio.owner.faults("POST", clients, json=taken) == {"username": "already_exists"}


def test_whoever_has_the_address_is_linked(studio: Studio, clients: str) -> None:
    stranger = studio.stranger.me
    client = studio.owner.post(clients, json={"email": stranger["email"].upper()})["client"]
    assert (client["username"], client["email"]) == (stranger["username"], stranger["email"].upper())
    assert [each["id"] for each in studio.stranger.get("/projects")["projects"]] == [studio.project_id]
    again = {"email": stranger["email"], "username": stranger["username"]}
    assert studio.owner.post(clients, json=again)["client"] == client
    assert [each.action for each in studio.happened()] == ["added"]
    assert studio.owner.get(clients)["clients"] == [client]


def test_an_address_that_has_a_place_elsewhere_is_like_any_other(studio: Studio, clients: str) -> None:
    """Owners, members and collaborators of another organization, and its client: nothing tells that they are."""
    elsewhere = Studio(studio.server, studio.server.world())
    shown = studio.owner.post(clients, json={"email": f"{_unique(studio, 'new')}@a.example"})["client"]
    people = [
        elsewhere.add(member="owner"), elsewhere.add(member="member"), elsewhere.add(role="admin"),
        elsewhere.add_client(),
    ]  # fmt: skip
    for somebody in (each.me for each in people):
        client = studio.owner.post(clients, json={"email": somebody["email"]})["client"]
        assert (set(client), client["email"]) == (set(shown), somebody["email"])
        assert client["username"] == somebody["username"]
    assert [each.action for each in studio.happened()] == ["added"] * 5
    assert elsewhere.happened() == []
    assert len(elsewhere.owner.get(f"{elsewhere.project}/clients")["clients"]) == 1
    elsewhere.close()


def test_a_name_alone_gives_nobody_away(studio: Studio, clients: str) -> None:
    stranger = studio.stranger.me
    other = {"email": "somebody-else@a.example", "username": stranger["username"]}
    assert studio.owner.faults("POST", clients, json=other) == {"username": "already_exists"}
    assert studio.owner.get(clients)["clients"] == []


def test_a_name_that_is_made_up_is_one_that_is_free(studio: Studio, clients: str) -> None:
    local = _unique(studio, "sam")
    names = [
        studio.owner.post(clients, json={"email": f"{local}@{each}.example"})["client"]["username"] for each in "abc"
    ]
    base = login_from(f"{local}@a.example")
    assert names == [base, first_free(base, {base}), first_free(base, {base, f"{base}-2"})]


@pytest.mark.parametrize(
    ("email", "login"),
    [
        ("jo@a.example", "jo"),
        ("Jo.Müller+news@a.example", "jo-muller-news"),
        ("日本@a.example", "client"),
        ("--__--@a.example", "client"),
        (f"{'a' * 38}.b@a.example", "a" * 38),
    ],
)
def test_a_login_is_made_from_the_address(email: str, login: str) -> None:
    assert login_from(email) == login


def test_suffixes_stay_within_a_login(studio: Studio) -> None:
    assert first_free("a" * 39, {"a" * 39}) == "a" * 37 + "-2"
    assert first_free("a" * 36 + "-bc", {"a" * 36 + "-bc"}) == "a" * 36 + "-2"


def test_a_member_is_no_client(studio: Studio, clients: str) -> None:
    for caller in (studio.owner, studio.member, studio.add(role="read")):
        email = caller.me["email"]
        body = {"email": email, "username": caller.me["username"]}
        assert studio.owner.faults("POST", clients, json=body) == {"email": "is_member"}
    assert studio.happened() == []


@pytest.mark.parametrize("email", ["", "jo", "@", "jo@", "a b@c.example", "a@b@c", f"{'a' * 250}@b.example", None, 7])
def test_an_address_that_is_none(studio: Studio, clients: str, email: object) -> None:
    assert studio.owner.faults("POST", clients, json={"email": email}) == {"email": "invalid"}


def test_every_fault_at_once(studio: Studio, clients: str) -> None:
    for name in ("-a", "a--b", "a_b", "a" * 40, ""):
        body = {"username": name, "role": "x"}
        assert studio.owner.faults("POST", clients, json=body) == {
            "email": "missing",
            "username": "invalid",
            "role": "unknown",
        }


def test_invited_by_several_at_once_somebody_is_a_client_once(studio: Studio, clients: str) -> None:
    body = {"email": f"{_unique(studio, 'kim')}@a.example"}
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: studio.owner.call("POST", clients, json=body), range(6)))
    assert {each.status_code for each in answers} == {200}
    assert len({each.json()["client"]["id"] for each in answers}) == 1
    assert [(each.name, each.action) for each in studio.happened()] == [("client", "added")]


# --- who may ---------------------------------------------------------------------------------------------------------


def test_clients_do_not_see_or_change_clients(studio: Studio, clients: str) -> None:
    other = studio.owner.post(clients, json={"email": f"{_unique(studio, 'ed')}@a.example"})["client"]
    name = studio.client.me["username"]
    [own] = [each for each in studio.owner.get(clients)["clients"] if each["username"] == name]
    assert studio.client.refused(403, "GET", clients)["code"] == "missing_role"
    assert studio.client.refused(403, "POST", clients, json={"email": "a@b.example"})["code"] == "missing_role"
    studio.client.refused(404, "GET", f"/clients/{other['id']}")
    studio.client.refused(404, "DELETE", f"/clients/{other['id']}")
    assert studio.client.get(f"/clients/{own['id']}")["client"] == own
    studio.client.delete(f"/clients/{own['id']}")  # anybody can leave
    studio.client.refused(404, "GET", studio.project)


def test_an_app_by_itself_decides_nothing_about_who_is_in_a_project(studio: Studio, clients: str) -> None:
    """As with members. For a user who lets it act it may do what the user may, and the page of consent says so."""
    client = studio.owner.post(clients, json={"email": f"{_unique(studio, 'bo')}@a.example"})["client"]
    bot = studio._caller(make_app(studio.server, studio.world).token(studio.server))
    assert bot.get(clients)["clients"] == [client]
    member = f"{studio.project}/members"
    for method, path, body in (
        ("POST", clients, {"email": "a@b.example"}),
        ("DELETE", f"/clients/{client['id']}", None),
        ("POST", member, {"username": client["username"]}),
    ):
        assert bot.refused(403, method, path, json=body)["code"] == "missing_role"
    said = bot.refused(403, "POST", clients, json={"email": "a@b.example"})["message"]
    assert said.startswith("An app by itself does not invite clients")
    assert studio.owner.get(clients)["clients"] == [client]


def test_others_see_nothing_and_readers_only_read(studio: Studio, clients: str) -> None:
    client = studio.owner.post(clients, json={"email": f"{_unique(studio, 'al')}@a.example"})["client"]
    reader = studio.add(role="read")
    assert reader.get(clients)["clients"] == [client]
    for caller, status in ((reader, 403), (studio.stranger, 404), (studio.nobody, 401)):
        caller.refused(status, "POST", clients, json={"email": "a@b.example"})
        caller.refused(status, "DELETE", f"/clients/{client['id']}")
    for path in (clients, f"/clients/{client['id']}"):
        studio.stranger.refused(404, "GET", path)
    studio.owner.refused(404, "GET", "/clients/cli_x")


def test_clients_see_their_projects_and_change_none(studio: Studio) -> None:
    hidden = studio.owner.post("/projects", json={"title": "Other"})["project"]
    project = studio.client.get(studio.project)["project"]
    assert project == studio.owner.get(studio.project)["project"]
    assert studio.client.get("/projects")["projects"] == [project]
    studio.client.refused(404, "GET", f"/projects/{hidden['id']}")
    assert studio.client.refused(403, "PATCH", studio.project, json={"title": "Mine"})["code"] == "missing_role"
    assert studio.client.refused(403, "DELETE", studio.project)["code"] == "missing_role"
    studio.owner.patch(studio.project, json={"private": True})
    assert studio.client.get(studio.project)["project"]["private"] is True


# --- remove ----------------------------------------------------------------------------------------------------------


def test_a_client_is_removed(studio: Studio, clients: str) -> None:
    client = studio.owner.post(clients, json={"email": f"{_unique(studio, 'bo')}@a.example"})["client"]
    path = f"/clients/{client['id']}"
    tag = studio.owner.call("GET", path).headers["etag"]
    studio.happened()
    studio.owner.refused(412, "DELETE", path, headers={"If-Match": '"other"'})
    invited = _token(studio, client["username"])
    assert studio.member.delete(path, headers={"If-Match": tag}) == {"success": True}
    [removed] = studio.happened()
    assert (removed.name, removed.action, removed.record) == ("client", "removed", client)
    invited.refused(404, "GET", studio.project)
    assert invited.get("/projects")["projects"] == []
    for method in ("GET", "DELETE"):
        studio.owner.refused(404, method, path)


def test_nothing_changes_in_an_archived_project(studio: Studio, clients: str) -> None:
    client = studio.owner.post(clients, json={"email": f"{_unique(studio, 'cy')}@a.example"})["client"]
    studio.owner.patch(studio.project, json={"archive": True})
    assert studio.owner.refused(409, "POST", clients, json={"email": "a@b.example"})["code"] == "archived"
    assert studio.owner.refused(409, "DELETE", f"/clients/{client['id']}")["code"] == "archived"
    assert studio.owner.get(clients)["clients"] == [client]


@pytest.mark.parametrize("archived", [False, True])
def test_a_client_leaves_by_their_own_name(studio: Studio, archived: bool) -> None:
    """Nobody tells a client the id of its record."""
    name = studio.client.me["username"]
    [record] = studio.owner.get(f"{studio.project}/clients")["clients"]
    studio.owner.patch(studio.project, json={"archive": archived})
    studio.happened()
    assert studio.client.delete(f"{studio.project}/members/{name.upper()}") == {"success": True}
    [removed] = studio.happened()
    assert (removed.name, removed.action, removed.record) == ("client", "removed", record)
    assert removed.payload["sender"]["username"] == name
    studio.client.refused(404, "GET", studio.project)
    assert studio.owner.get(f"{studio.project}/clients")["clients"] == []
    studio.client.refused(404, "DELETE", f"{studio.project}/members/{name}")
    entries = studio.owner.http.get(f"{studio.world.org_path}/audit-log").json()
    assert [each["target"] for each in entries if each["action"] == "client.remove"] == [record["id"]]


def test_nobody_else_ends_the_place_of_a_client_by_the_name(studio: Studio) -> None:
    name = studio.client.me["username"]
    path = f"{studio.project}/members/{name}"
    assert studio.add_client().refused(403, "DELETE", path)["code"] == "missing_role"
    for caller, status in ((studio.owner, 404), (studio.member, 403), (studio.stranger, 404)):
        caller.refused(status, "DELETE", path)
    assert studio.client.get(studio.project)["project"]["id"] == studio.project_id


def test_a_client_who_was_added_too_leaves_as_both(studio: Studio, clients: str) -> None:
    name = studio.client.me["username"]
    collaborator = f"{studio.world.repo_path}/collaborators/{name}"
    added = studio.owner.http.put(collaborator, json={"permission": "push"})
    assert added.status_code == 201, added.text
    [invitation] = studio.client.http.get("/user/repository_invitations").json()
    assert studio.client.http.patch(f"/user/repository_invitations/{invitation['id']}").status_code == 204
    studio.happened()
    studio.client.delete(f"{studio.project}/members/{name}")
    assert sorted((each.name, each.action) for each in studio.happened()) == [
        ("client", "removed"),
        ("member", "removed"),
    ]
    studio.client.refused(404, "GET", studio.project)


def test_pages_of_clients(studio: Studio, clients: str) -> None:
    for each in "abc":
        studio.owner.post(clients, json={"email": f"{_unique(studio, each)}@a.example"})
    every = studio.owner.get(clients)["clients"]
    assert [each["id"] for each in every] == sorted(each["id"] for each in every)
    page = studio.owner.call("GET", clients, params={"per_page": 2})
    rest = studio.owner.http.get(page.links["next"]["url"])
    assert page.json()["clients"] + rest.json()["clients"] == every
    assert "next" not in rest.links


def test_a_webhook_tells_of_a_client(studio: Studio, clients: str, receiver: Receiver) -> None:
    hook = {"name": "web", "events": ["client"], "config": {"url": receiver.url, "content_type": "json"}}
    assert studio.owner.http.post(f"{studio.world.repo_path}/hooks", json=hook).status_code == 201
    client = studio.owner.post(clients, json={"email": f"{_unique(studio, 'di')}@a.example"})["client"]
    received = receiver.wait_for(lambda requests: any(each.event == "client" for each in requests))
    [told] = [each.payload() for each in received if each.event == "client"]
    assert (told["action"], told["client"]) == ("added", client)
