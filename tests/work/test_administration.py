"""Server administrators managing users and organizations, and what remains of a removed user."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.cli.cli_kit import Cli
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import must
from tests.work.scene import Scene
from tests.work.studio import Caller, Studio
from workhook.http.calls import Services
from workhook.identity import administrators, queries
from workhook.identity.schemas import Account
from workhook.identity.tables import administrators as administrators_table
from workhook.identity.tables import audit_log


def change(server: Server, login: str, *, remove: bool = False) -> None:
    """Appoint an administrator, or remove one even if they are the last."""

    async def run(services: Services) -> None:
        async with services.database.transaction() as tx:
            user = must(await queries.find_account(tx, login))
            if remove:
                await tx.execute(sa.delete(administrators_table).where(administrators_table.c.user_id == user.id))
            else:
                await administrators.appoint(tx, user)

    server.run(run)


@pytest.fixture
def admin(server: Server, studio: Studio) -> Iterator[Caller]:
    """Yield the only administrator, who is in no organization of the studio.

    Restore the server's own ones afterwards.
    """
    caller = studio.stranger

    before = [row["user_id"] for row in server.fetch(sa.select(administrators_table.c.user_id))]
    server.execute(sa.delete(administrators_table))
    change(server, caller.login)
    yield caller
    change(server, caller.login, remove=True)

    async def put_back(services: Services) -> None:
        async with services.database.transaction() as tx:
            for user_id in before:
                user = must(await queries.find_account_by_id(tx, user_id))
                await administrators.appoint(tx, user)

    server.run(put_back)


def ask(caller: Caller, method: str, path: str, **more: Any) -> httpx.Response:
    return caller.http.request(method, path, **more)


def done(caller: Caller, method: str, path: str, status: int, **more: Any) -> Any:
    response = ask(caller, method, path, **more)
    assert response.status_code == status, response.text
    return response.json() if response.content else None


def account(server: Server, login: str) -> Account | None:
    found: Account | None = server.run(lambda services: queries.find_account(services.database, login))
    return found


def new_login(studio: Studio, name: str) -> str:
    return f"{name}-{studio.project_id[-8:].lower()}"


def test_the_admin_api_is_hidden_from_other_users(studio: Studio) -> None:
    for method, path in (
        ("GET", "/admin/users"),
        ("POST", f"/admin/users/{studio.member.login}/disable"),
        ("DELETE", f"/admin/users/{studio.member.login}"),
    ):
        for prefix in ("", "/api/v3"):
            assert ask(studio.owner, method, prefix + path).status_code == 404
    body = {"login": new_login(studio, "ada"), "email": "ada@example.com"}
    assert ask(studio.owner, "POST", "/admin/users", json=body).status_code == 404
    assert ask(studio.nobody, "GET", "/admin/users").status_code == 401


def test_an_administrator_adds_a_user_and_an_organization(server: Server, studio: Studio, admin: Caller) -> None:
    login, place = new_login(studio, "ada"), new_login(studio, "studio")
    body = {"login": login, "email": f"{login}@example.com", "name": "Ada"}
    response = ask(admin, "POST", "/api/v3/admin/users", json=body)
    assert response.status_code == 201, response.text
    made = response.json()
    assert (made["login"], made["name"], made["email"]) == (login, "Ada", f"{login}@example.com")
    assert (made["site_admin"], made["disabled_at"], made["type"]) == (False, None, "User")
    assert response.headers["location"] == made["url"]
    errors = done(admin, "POST", "/admin/users", 422, json={**body, "email": "nobody"})["errors"]
    assert {each["field"] for each in errors} >= {"email"}
    assert done(admin, "POST", "/admin/users", 422, json=body)["errors"][0]["code"] == "already_exists"
    made = done(admin, "POST", "/admin/organizations", 201, json={"login": place, "admin": login})
    assert (made["login"], made["name"], made["type"]) == (place, place, "Organization")
    assert ask(admin, "GET", f"/orgs/{place}").status_code == 404, "an administrator is not a member"
    errors = done(admin, "POST", "/admin/organizations", 422, json={"login": place, "admin": "nobody-here"})["errors"]
    assert [each["field"] for each in errors] == ["login", "admin"]


def test_all_users_are_listed(studio: Studio, admin: Caller) -> None:
    found, page = [], 1
    while rows := done(admin, "GET", "/admin/users", 200, params={"per_page": 100, "page": page}):
        found += rows
        page += 1
    by_login = {each["login"]: each for each in found}
    assert by_login[admin.login]["site_admin"] is True
    assert by_login[studio.owner.login]["email"] == "octo@example.com"
    assert studio.world.organization not in by_login


def test_a_user_can_be_disabled_and_enabled_again(studio: Studio, admin: Caller) -> None:
    path, member = f"/admin/users/{studio.member.login}", studio.member
    assert done(admin, "POST", f"{path}/disable", 200)["disabled_at"] is not None
    again = done(admin, "POST", f"{path}/disable", 200)
    assert again["disabled_at"] is not None
    assert member.call("GET", "/me").status_code == 401
    assert done(admin, "POST", f"{path}/enable", 200)["disabled_at"] is None
    assert member.call("GET", "/me").status_code == 200
    errors = done(admin, "POST", f"/admin/users/{studio.owner.login}/disable", 422)["errors"]
    assert studio.world.organization in errors[0]["message"]
    errors = done(admin, "POST", f"/admin/users/{admin.login}/disable", 422)["errors"]
    assert "last active administrator" in errors[0]["message"]
    assert ask(admin, "POST", "/admin/users/nobody-here/disable").status_code == 404


def test_the_work_of_a_removed_user_remains(server: Server, studio: Studio, scene: Scene, admin: Caller) -> None:
    member, client = studio.member, studio.client
    login, address = member.login, str(member.me["email"])
    task = scene.task(title="Landing page")
    studio.owner.patch(f"/tasks/{task}", json={"assignees": [login]})
    comment = member.post(f"/tasks/{task}/task_comments", json={"text": "Done by me"})["task_comment"]
    timer = member.post(f"{studio.project}/timesheets", json={"task_id": task})["timesheet"]
    user_id, client_id = member.me["id"], client.me["id"]
    studio.happened()
    assert ask(admin, "DELETE", f"/admin/users/{login}").status_code == 204
    assert ask(admin, "DELETE", f"/admin/users/{client.login}").status_code == 204
    assert [(each.name, each.action, each.payload["sender"]) for each in studio.happened()] == [
        ("timesheet", "finished", None),
        ("member", "removed", None),
        ("client", "removed", None),
    ]
    assert member.call("GET", "/me").status_code == client.call("GET", "/me").status_code == 401
    assert ask(admin, "DELETE", f"/admin/users/{login}").status_code == 404
    [shown] = studio.owner.get(f"/tasks/{task}/task_comments")["task_comments"]
    assert (shown["id"], shown["text"], shown["user"]["login"]) == (comment["id"], comment["text"], f"former-{user_id}")
    assert studio.owner.get(f"/timesheets/{timer['id']}")["timesheet"]["finished"] is True
    assert address not in str(shown)
    gone = account(server, f"former-{user_id}")
    assert gone is not None
    assert (gone.name, gone.email, gone.avatar, gone.kind) == ("Former member", None, None, "former")
    assert account(server, f"former-{client_id}") is not None
    assert studio.owner.get(f"{studio.project}/clients")["clients"] == []
    logins = {each["login"] for each in done(admin, "GET", "/admin/users", 200, params={"per_page": 100})}
    assert not logins & {login, f"former-{user_id}"}
    assert account(server, login) is None, "somebody else can have the login"


def test_two_administrators_who_disable_each_other_leave_one(server: Server, studio: Studio, admin: Caller) -> None:
    other = studio.add()
    change(server, other.login)
    with ThreadPoolExecutor(2) as pool:
        calls = [
            pool.submit(ask, caller, "POST", f"/admin/users/{victim.login}/disable")
            for caller, victim in ((admin, other), (other, admin))
        ]
    # The second is disabled before the request runs, or is refused because the first is the last administrator.
    assert sorted(each.result().status_code for each in calls)[0] == 200
    assert {each.result().status_code for each in calls} <= {200, 401, 422}
    left = [each for each in (admin, other) if ask(each, "GET", "/admin/users").status_code == 200]
    assert len(left) == 1
    for each in (admin, other):
        done(left[0], "POST", f"/admin/users/{each.login}/enable", 200)
    change(server, other.login, remove=True)


def test_administrator_actions_are_in_the_audit_log(server: Server, studio: Studio, admin: Caller) -> None:
    member = studio.member
    admin_id, member_id = admin.me["id"], member.me["id"]
    done(admin, "POST", f"/admin/users/{member.login}/disable", 200)
    done(admin, "POST", f"/admin/users/{member.login}/enable", 200)
    done(admin, "DELETE", f"/admin/users/{member.login}", 204)

    rows = server.fetch(sa.select(audit_log).where(audit_log.c.account_id == member_id).order_by(audit_log.c.id))
    found = [(row["action"], row["actor_id"]) for row in rows if row["action"].startswith("user.")]
    assert found == [(action, admin_id) for action in ("user.disable", "user.enable", "user.disable", "user.delete")]


# --- organization deletion -------------------------------------------------------------------------------------------
# Deleting an organization: permissions, the webhook event and the command.


def test_deleting_an_organization_notifies_its_webhook_and_frees_the_login(server: Server, receiver: Receiver) -> None:
    world = server.world()
    with server.client(world.token) as client:
        config = {"url": receiver.url, "content_type": "json"}
        made = client.post(
            f"{world.org_path}/hooks", json={"name": "web", "events": ["organization"], "config": config}
        )
        assert made.status_code == 201, made.text
        organization = client.get(world.org_path).json()
        assert client.delete(world.org_path).status_code == 202
        assert client.delete(world.org_path).status_code == 404
    [got] = until(lambda: receiver.events("organization"))
    payload = got.payload()
    assert set(payload) == {"action", "organization", "sender"}
    assert (payload["action"], payload["organization"]["id"]) == ("deleted", organization["id"])
    assert payload["organization"]["login"] == world.organization
    assert payload["sender"]["login"] == world.owner


def test_the_command_deletes_an_organization_while_the_server_runs(server: Server) -> None:
    world, other = server.world(), server.world()
    cli = Cli(server.data, {k: v for k, v in server.settings.items() if k == "database_url"})
    assert "Use --yes" in cli.refused("organization", "delete", world.organization, status=2)
    done = cli.json("organization", "delete", world.organization, "--yes")
    assert done == {"organization": world.organization, "issued_invoices": 0, "purged": True}
    with server.client(world.token) as client:
        assert client.get(world.org_path).status_code == 404
        assert client.get("/user").status_code == 200
    with server.client(other.token) as client:
        assert client.get(other.org_path).status_code == 200
    setup = ("setup", "--organization", world.organization, "--owner", world.owner)
    assert cli.json(*setup, "--email", "a@example.com")["organization"] == world.organization
