"""Changing one's own objects leaves other people's work intact, and whatever a permission allowed ends with it."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from tests.identity.asking import basic
from tests.identity.cast import SCOPES
from tests.walls.dump import Change, Dump, changes
from tests.walls.test_side_effects import effects
from tests.walls.world import Walls
from tests.work.studio import Caller
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.apps.queries import find_client
from workhook.identity.oauth.grants import allow
from workhook.identity.tokens.issue import OAUTH, issue


def _caller(walls: Walls, name: str) -> Caller:
    header = walls.caller(name).header or ""
    return Caller(walls.server, header.removeprefix("Bearer "))


def _of(table: str, before: Dump, after: Dump) -> list[Change]:
    return [each for each in changes(before, after) if each[0] == table]


def test_a_client_moves_its_own_task_while_a_member_tracks_time_on_it(walls: Walls) -> None:
    scene, client, member = walls.site.scene, _caller(walls, "client"), _caller(walls, "member")
    try:
        task = client.post(f"/columns/{scene.column()}/tasks", json={"title": "Mine"})["task"]["id"]
        done = scene.column(stage="done")
        member.post(f"{scene.project_path}/timesheets", json={"task_id": task})
        before = walls.reader.dump()
        answer = client.call("PATCH", f"/tasks/{task}", json={"column_id": done})
        assert _of("timesheets", before, walls.reader.dump()) == [], answer.text
    finally:
        client.http.close()
        member.http.close()


def test_a_client_deletes_its_own_comment_that_has_private_replies_of_members(walls: Walls) -> None:
    scene, client = walls.site.scene, _caller(walls, "client")
    try:
        path = f"/files/{scene.file()}/file_comments"
        comment = client.post(path, json={"text": "Mine"})["id"]
        scene.reply(comment, private=True)
        before = walls.reader.dump()
        answer = client.call("DELETE", f"/file_comments/{comment}")
        assert _of("file_comment_replies", before, walls.reader.dump()) == [], answer.text
    finally:
        client.http.close()


class Customers(NamedTuple):
    """An OAuth app of A with the consent of an owner of A and an owner of B, each with a webhook through it."""

    here: str  # the token of the owner of A
    hook: int
    hook_beyond: int


def _customers(walls: Walls, app: dict[str, Any]) -> Customers:
    async def consent(services: Services) -> list[str]:
        async with services.database.transaction() as tx:
            found = await find_client(tx, app["client_id"])
            assert found is not None
            tokens = []
            for login in (walls.site.here.owner, walls.beyond.bea.login):
                user = await queries.find_account(tx, login)
                assert user is not None
                await allow(tx, found, user.id, frozenset(SCOPES))
                tokens.append((await issue(tx, OAUTH, user.id, scopes=SCOPES, app_id=found.id)).token)
        return tokens

    tokens = walls.server.run(consent)
    hook = partial(_hook, walls)
    return Customers(tokens[0], hook(tokens[0], walls.site.here.org_path), hook(tokens[1], walls.beyond.world.org_path))


def _hook(walls: Walls, token: str, place: str) -> int:
    body = {"name": "web", "events": ["*"], "config": {"url": f"{walls.receiver.url}/of-an-app"}}
    with walls.server.client(token) as client:
        made = client.post(f"{place}/hooks", json=body)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def test_withdrawing_consent_ends_the_webhooks_of_the_app_only_for_that_user(walls: Walls) -> None:
    with walls.server.client(walls.site.here.token) as owner:
        body = {"name": "Two customers", "callback_urls": ["http://127.0.0.1:9/back"]}
        app = owner.post(f"{walls.site.here.org_path}/oauth-apps", json=body).json()
    made = _customers(walls, app)
    headers = {"Authorization": basic(app["client_id"], app["client_secret"])}
    with walls.server.client(None, headers=headers) as client:
        before = walls.reader.dump()
        path = f"/applications/{app['client_id']}/grant"
        answer = client.request("DELETE", path, json={"access_token": made.here})
        assert answer.status_code == 204, answer.text
    after = walls.reader.dump()
    assert after["hooks"][(made.hook_beyond,)] == before["hooks"][(made.hook_beyond,)]
    left = after["hooks"].get((made.hook,))
    assert left is None or not left["active"], effects(before, after)


def test_pausing_a_timer_elsewhere_does_not_disclose_the_new_timer_there(walls: Walls) -> None:
    """`both` has a timer running in B's private project, and starts one in A."""
    scene = walls.site.scene
    walls.both.post(f"{walls.shut.project_path}/timesheets", json={"task_id": walls.shut.task()})
    before = walls.reader.dump()
    body = {"task_id": scene.task()}
    here = walls.both.post(f"{scene.project_path}/timesheets", json=body)["timesheet"]["id"]
    after = walls.reader.dump()
    entries = [after["audit_log"][key] for _, _, key, _ in _of("audit_log", before, after)]
    told = {entry["account_id"]: entry["target"] for entry in entries if entry["action"] == "timesheet.create"}
    assert told == {
        walls.site.cast.numbers.organization: f"timesheet/{here}",
        walls.beyond.account.id: "timesheet",
    }
