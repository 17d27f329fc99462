"""`Idempotency-Key`: a POST sent twice takes effect once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.harness.apps import make_app
from tests.harness.waiting import until
from tests.work.requests_kit import TABLE
from tests.work.rights_kit import (
    BASE,
    change_by_hand,
    make_member,
    make_reader,
    remove_client,
    remove_collaborator,
    remove_member,
)
from tests.work.scene import Scene
from tests.work.studio import Caller, Studio
from workhook.core.clock import now_ms
from workhook.core.ids import new_id
from workhook.identity.context import Write
from workhook.identity.schemas import Account, Repository
from workhook.identity.tables import projects
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into
from workhook.work.kernel.tables import clients
from workhook.work.money.invoices.schemas import invoices
from workhook.work.people import membership

KEY = {"Idempotency-Key": "8e03978e-40d5-43dd-bc93-6894a57f9324"}
NEW = {"title": "Shop"}


def _titles(studio: Studio) -> list[str]:
    return [each["title"] for each in studio.owner.get("/projects")["projects"]]


def test_a_repeated_request_gets_the_stored_response(studio: Studio) -> None:
    first = studio.owner.call("POST", "/projects", json=NEW, headers=KEY)
    again = studio.owner.call("POST", "/projects", json=NEW, headers=KEY)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.content == first.content
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert _titles(studio) == ["Website", "Shop"]
    assert [each.action for each in studio.happened()] == ["created"]


def test_another_request_with_the_same_key_is_refused(studio: Studio) -> None:
    studio.owner.post("/projects", json=NEW, headers=KEY)
    for other in ({"json": {"title": "Else"}}, {"json": NEW, "params": {"private": "true"}}, {"params": NEW}):
        assert studio.owner.faults("POST", "/projects", headers=KEY, **other) == {
            "Idempotency-Key": "idempotency_key_reused"
        }
    assert _titles(studio) == ["Website", "Shop"]


def test_an_error_response_is_not_stored(studio: Studio) -> None:
    assert studio.owner.faults("POST", "/projects", json={"title": ""}, headers=KEY) == {"title": "invalid"}
    assert studio.owner.post("/projects", json=NEW, headers=KEY)["project"]["title"] == "Shop"


def test_keys_are_scoped_to_a_token(studio: Studio) -> None:
    mine = studio.owner.post("/projects", json=NEW, headers=KEY)["project"]
    theirs = studio.member.post("/projects", json=NEW, headers=KEY)["project"]
    assert mine["id"] != theirs["id"]


def test_concurrent_requests_take_effect_once(studio: Studio) -> None:
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(studio.owner.call, "POST", "/projects", json=NEW, headers=KEY) for _ in range(8)]
        answers = [each.result() for each in calls]
    assert {each.status_code for each in answers} <= {200, 409}
    assert len({each.content for each in answers if each.status_code == 200}) == 1
    assert {each.json()["code"] for each in answers if each.status_code == 409} <= {"idempotency_in_flight"}
    assert _titles(studio) == ["Website", "Shop"]


def test_an_invalid_key_is_refused(studio: Studio) -> None:
    for key in (b"", b"x" * 256, "ü".encode("latin-1"), b"a\tb"):
        headers = {b"Idempotency-Key": key}
        assert studio.owner.faults("POST", "/projects", json=NEW, headers=headers) == {"Idempotency-Key": "invalid"}


# --- idempotency rights ----------------------------------------------------------------------------------------------
# A stored response is replayed only to callers who still have the rights the request required.
# Every POST of the work API is sent with a key; then its caller loses a right and repeats it.


_forget_invoices = sa.delete(invoices).where(
    invoices.c.repository_id.in_(sa.select(projects.c.repository_id).where(projects.c.id == sa.bindparam("id")))
)
_insert_client = insert_into(clients, "id", "repository_id", "user_id", "email", "created_at", "updated_at")
POSTS = [key for key in TABLE if key.startswith("POST ")]


def _make_client(studio: Studio, caller: Caller) -> None:
    """Remove a member and make them a client."""

    async def look_on(tx: Transaction, organization: Account, repository: Repository, person: Account) -> None:
        await membership.remove_member(Write(tx, None, BASE), organization, person)
        values = {"id": new_id("cli"), "repository_id": repository.id, "user_id": person.id, "email": person.email}
        await tx.execute(_insert_client, {**values, "created_at": now_ms(), "updated_at": now_ms()})

    change_by_hand(studio, caller, look_on)


def _make_private(studio: Studio, caller: Caller) -> None:
    studio.owner.patch(studio.project, json={"private": True})


def _delete_project(studio: Studio, caller: Caller) -> None:
    """Delete the project after removing its invoices, which would otherwise prevent that."""

    studio.server.execute(_forget_invoices, {"id": studio.project_id})
    studio.owner.delete(studio.project)


LOSSES: dict[str, tuple[Callable[[Studio], Caller], Callable[[Studio, Caller], None]]] = {
    "member removed": (lambda studio: studio.add(member="member"), remove_member),
    "owner removed": (lambda studio: studio.add(member="owner"), remove_member),
    "owner lowered": (lambda studio: studio.add(member="owner"), make_member),
    "collaborator removed": (lambda studio: studio.add(role="write"), remove_collaborator),
    "collaborator lowered": (lambda studio: studio.add(role="write"), make_reader),
    "member becomes client": (lambda studio: studio.add(member="member"), _make_client),
    "client removed": (lambda studio: studio.client, remove_client),
    "project private": (lambda studio: studio.add(member="member"), _make_private),
    "project deleted": (lambda studio: studio.add(member="member"), _delete_project),
}


class Request:
    """A POST that can be sent repeatedly."""

    def __init__(self, scene: Scene, name: str, number: int) -> None:
        _, made, body = TABLE[name]
        given = body(scene) if callable(body) else body
        ids = made(scene)
        self.name = name
        self.path = name.split()[1].format(*(ids if isinstance(ids, tuple) else (ids,)))
        self.more: dict[str, Any] = given if {"params", "files"} & set(given) else {"json": given}
        self.key = {"Idempotency-Key": f"key-{number}"}

    def send(self, caller: Caller, *, keyed: bool = True) -> httpx.Response:
        return caller.call("POST", self.path, headers=self.key if keyed else {}, **self.more)


def _requests(studio: Studio) -> list[Request]:
    login = studio.add(member="member").login
    scene = Scene(studio.owner, studio.project_id, studio.world.organization, login)
    return [Request(scene, name, number) for number, name in enumerate(POSTS)]


def _is_refused(request: Request, caller: Caller) -> bool:
    return request.send(caller, keyed=False).status_code != 200


def _is_replayed(response: httpx.Response) -> bool:
    return "idempotent-replayed" in response.headers


@pytest.mark.parametrize("loss", LOSSES)
def test_stored_responses_are_not_replayed_after_losing_rights(studio: Studio, loss: str) -> None:
    make, lose = LOSSES[loss]
    caller = make(studio)
    done = [(each, answer) for each in _requests(studio) if (answer := each.send(caller)).status_code == 200]
    assert len(done) >= 5
    repeated = [each.send(caller) for each, _ in done]
    assert [(each.name, again.text) for (each, _), again in zip(done, repeated, strict=True)] == [
        (each.name, answer.text) for each, answer in done
    ]
    assert all(map(_is_replayed, repeated))
    lose(studio, caller)
    wrong, refused = [], 0
    for each, answer in done:
        again, now = each.send(caller), each.send(caller, keyed=False)
        told = f"{each.name}: {again.status_code} {again.text[:100]}; without the key {now.status_code}"
        if now.status_code in (403, 404):
            refused += 1
            if again.status_code != now.status_code or _is_replayed(again):
                wrong.append(told)
        elif again.status_code == 200:
            if again.content != answer.content or not _is_replayed(again) or _names(studio, loss, each, again):
                wrong.append(told)
        elif again.status_code not in (now.status_code, 409):
            wrong.append(told)
    assert wrong == [], "\n".join(wrong)
    assert refused >= 1


def _names(studio: Studio, loss: str, request: Request, answer: httpx.Response) -> bool:
    """Return whether the response mentions the organization the caller no longer belongs to."""
    gone = loss in ("member removed", "owner removed", "member becomes client")
    return gone and (studio.world.organization in answer.text or request.name in ("POST /projects", "POST /tasks/bulk"))


def test_a_former_member_does_not_get_the_stored_response_of_a_project_creation(studio: Studio) -> None:
    """Sent now, the same request would create a project of the caller's own."""
    caller, body, key = studio.add(member="member"), {"title": "Secret"}, {"Idempotency-Key": "secret"}
    caller.post("/projects", json=body, headers=key)
    change_by_hand(
        studio, caller, lambda tx, _, place, who: membership.remove_collaborator(Write(tx, None, BASE), place, who)
    )
    remove_member(studio, caller)
    refused = caller.refused(409, "POST", "/projects", json=body, headers=key)
    assert refused["code"] == "rights_changed"
    assert caller.get("/projects")["projects"] == []


def test_a_bulk_response_is_not_replayed_after_losing_one_of_two_projects(studio: Studio) -> None:
    caller = studio.add(role="write")
    scene = Scene(studio.owner, studio.project_id, studio.world.organization)
    own = caller.post("/projects", json={"title": "Own"})["project"]["id"]
    column = caller.post(f"/projects/{own}/columns", json={"title": "To do"})["column"]["id"]
    body = {
        "operations": [{"action": "create", "column_id": each, "title": "Hush"} for each in (column, scene.column())]
    }
    key = {"Idempotency-Key": "both"}
    caller.post("/tasks/bulk", json=body, headers=key)
    remove_collaborator(studio, caller)
    assert caller.faults("POST", "/tasks/bulk", json=body, headers=key) == {"operations[1].column_id": "not_found"}


def test_a_response_is_replayed_even_if_its_objects_are_gone(studio: Studio) -> None:
    """The caller's rights are unchanged, and the request itself deleted the task."""
    scene = Scene(studio.owner, studio.project_id, studio.world.organization)
    body = {"operations": [{"action": "delete", "id": scene.task()}]}
    key = {"Idempotency-Key": "gone"}
    first = studio.member.call("POST", "/tasks/bulk", json=body, headers=key)
    again = studio.member.call("POST", "/tasks/bulk", json=body, headers=key)
    assert (first.status_code, again.content, _is_replayed(again)) == (200, first.content, True)


@pytest.mark.parametrize("less", ["a repository", "the permission"])
def test_an_app_that_lost_access_gets_no_stored_responses(studio: Studio, less: str) -> None:
    studio.owner.post("/projects", json={"title": "Other", "name": "other", "organization": studio.world.organization})
    app = make_app(studio.server, studio.world)
    bot = Caller(studio.server, app.token(studio.server))
    done = [each for each in _requests(studio) if each.send(bot).status_code == 200]
    assert len(done) >= 10
    body = {"repositories": ["other"]} if less == "a repository" else {"permissions": {"work": "read"}}
    more = {"repository_selection": "selected"} if less == "a repository" else {}
    path = f"{studio.world.org_path}/installations/{app.installation_id}"
    answer = studio.owner.http.patch(path, json={**body, **more})
    assert answer.status_code == 200, answer.text
    wrong = []
    for each in done:
        until(partial(_is_refused, each, bot))
        again, now = each.send(bot), each.send(bot, keyed=False)
        if again.status_code != now.status_code or again.json()["code"] != now.json()["code"]:
            wrong.append(f"{each.name}: {again.status_code} {again.text[:100]}; without the key {now.status_code}")
    bot.http.close()
    assert wrong == [], "\n".join(wrong)
