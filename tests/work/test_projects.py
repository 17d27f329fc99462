"""`/api/v1/projects`: permissions of each role, and rules common to all operations."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Literal

import httpx
import msgspec
import pytest
from msgspec import Meta

from tests.harness.receiver import Receiver
from tests.harness.world import make_world
from tests.work.rights_kit import BASE, change_by_hand
from tests.work.studio import Caller, JsonObject, Studio
from workhook.asgi import build_app
from workhook.core.errors import Invalid
from workhook.http import parameters
from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.work.board.projects import actions
from workhook.work.board.projects.actions import name_from, routes
from workhook.work.people import membership

KEYS = {
    "id", "repository_id", "title", "name", "full_name", "avatar", "private", "archive", "label_colors",
    "created_at", "updated_at",
}  # fmt: skip


def make(caller: Caller, title: str = "Shop", **more: object) -> JsonObject:
    made: JsonObject = caller.post("/projects", json={"title": title, **more})["project"]
    return made


def edit(caller: Caller, project: JsonObject, **body: object) -> JsonObject:
    edited: JsonObject = caller.patch(f"/projects/{project['id']}", json=body)["project"]
    return edited


# --- create and read ---------------------------------------------------------------------------------------------


def test_a_project_is_created_in_the_only_organization(studio: Studio) -> None:
    made = make(studio.owner, "  Web shop ")
    assert set(made) == KEYS
    assert re.fullmatch(r"prj_[0-9a-hjkmnp-tv-z]{26}", made["id"])
    assert (made["title"], made["name"]) == ("Web shop", "web-shop")
    assert made["full_name"] == f"{studio.world.organization}/web-shop"
    assert (made["avatar"], made["private"], made["archive"]) == (None, False, False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", made["created_at"])
    assert made["updated_at"] == made["created_at"]
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == ("project", "created", made)
    assert "changes" not in event.payload
    assert studio.member.get(f"/projects/{made['id']}")["project"] == made


def test_body_parameters_override_query_parameters(studio: Studio) -> None:
    query = {"title": "From the query", "private": "true", "avatar": "https://cdn.example.com/a.png"}
    empty = {"Content-Type": "application/json"}
    made = studio.owner.post("/projects", params=query, headers=empty)["project"]
    assert (made["title"], made["private"], made["avatar"]) == (query["title"], True, query["avatar"])
    both = studio.owner.post("/projects", json={"title": "From the body"}, params=query)["project"]
    assert (both["title"], both["private"]) == ("From the body", True)
    cleared = studio.owner.patch(f"/projects/{both['id']}", params={"avatar": "", "private": "0"})["project"]
    assert (cleared["avatar"], cleared["private"]) == (None, False)


def test_a_project_can_assign_colors_to_labels(studio: Studio) -> None:
    made = make(studio.owner)
    assert made["label_colors"] == {}
    path, colors = f"/projects/{made['id']}", {"Urgent": "red", "Größe": "sky"}
    assert edit(studio.owner, made, label_colors=colors)["label_colors"] == colors
    assert edit(studio.owner, made, title="Site")["label_colors"] == colors
    assert edit(studio.owner, made, label_colors=colors) == studio.owner.get(path)["project"]
    for wrong in ({"Urgent": "crimson"}, {"": "red"}, {"x" * 256: "red"}, {str(at): "red" for at in range(201)}, None):
        assert "invalid" in studio.owner.faults("PATCH", path, json={"label_colors": wrong}).values(), wrong
    assert edit(studio.owner, made, label_colors={})["label_colors"] == {}


def test_all_invalid_fields_are_named_at_once(studio: Studio) -> None:
    body = {
        "title": "   ",
        "avatar": "ftp://example.com/a",
        "private": "true",  # a body requires a real boolean
        "archive": None,
        "name": "..",
        "organization": 7,
        "colour": "red",
    }
    refused = studio.owner.refused(422, "POST", "/projects", json=body, params={"size": "1"})
    assert refused["code"] == "validation_failed"
    assert {each["field"]: each["code"] for each in refused["errors"]} == {
        "title": "invalid", "avatar": "invalid", "private": "invalid", "archive": "invalid", "name": "invalid",
        "organization": "invalid", "colour": "unknown", "size": "unknown",
    }  # fmt: skip
    messages = {each["field"]: each["message"] for each in refused["errors"]}
    assert messages["title"] == "title must be text of 1 to 255 characters"
    assert messages["avatar"] == "avatar must be an http or https URL"
    assert studio.owner.faults("POST", "/projects") == {"title": "missing"}
    wrong = {"title": "a", "private": "maybe"}
    assert studio.owner.faults("POST", "/projects", params=wrong) == {"private": "invalid"}
    assert studio.happened() == []


def test_a_title_has_1_to_255_characters_after_trimming(studio: Studio) -> None:
    for title in ("a" * 256, "", "\t", "a\0b", 7, None, ["a"]):
        assert studio.owner.faults("POST", "/projects", json={"title": title}) == {"title": "invalid"}
    assert make(studio.owner, f" {'ü' * 255} ")["title"] == "ü" * 255


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
def test_the_name_is_derived_from_the_title(title: str, name: str) -> None:
    assert name_from(title) == name


def test_a_repeated_title_gets_a_suffix(studio: Studio) -> None:
    names = [make(studio.owner, title)["name"] for title in ("Shop", "shop!", "Shop 2", "SHOP")]
    assert names == ["shop", "shop-2", "shop-2-2", "shop-3"]
    long = [make(studio.owner, "b" * 200)["name"] for _ in range(3)]
    assert long == ["b" * 100, "b" * 98 + "-2", "b" * 98 + "-3"]
    with ThreadPoolExecutor(8) as pool:
        made = pool.map(lambda _: make(studio.owner, "At once"), range(8))
    assert sorted(each["name"] for each in made) == ["at-once", *(f"at-once-{n}" for n in range(2, 9))]


def test_a_name_can_be_chosen_unless_it_is_taken(studio: Studio) -> None:
    made, other = make(studio.owner, name="Acme.Site_1"), make(studio.owner, "Other")
    assert made["full_name"] == f"{studio.world.organization}/Acme.Site_1"
    taken = {"title": "New", "name": "acme.SITE_1"}
    assert studio.owner.faults("POST", "/projects", json=taken) == {"name": "already_exists"}
    assert studio.owner.faults("PATCH", f"/projects/{other['id']}", json=taken) == {"name": "already_exists"}
    assert edit(studio.owner, made, name="acme.site_1")["name"] == "acme.site_1"
    assert edit(studio.owner, made, title="Intranet")["name"] == "acme.site_1"
    for wrong in (".", "..", "a/b", "a b", "", "website.git", "Website.GIT", "a" * 101, "a\n", "ä"):
        assert studio.owner.faults("POST", "/projects", json={"title": "a", "name": wrong}) == {"name": "invalid"}


# --- ownership ---------------------------------------------------------------------------------------------------


def test_a_member_of_several_organizations_must_name_one(studio: Studio, elsewhere: Studio) -> None:
    change_by_hand(
        elsewhere,
        studio.owner,
        lambda tx, place, _, person: membership.set_member(Write(tx, None, BASE), place, person, "member"),
    )
    assert studio.owner.faults("POST", "/projects", json={"title": "a"}) == {"organization": "missing"}
    organization = elsewhere.world.organization
    assert make(studio.owner, "a", organization=organization.upper())["full_name"] == f"{organization}/a"
    assert make(studio.owner, "a", organization=studio.owner.login)["full_name"] == f"{studio.owner.login}/a"
    for wrong in ("initech", studio.member.login):
        body = {"title": "a", "organization": wrong}
        assert studio.owner.faults("POST", "/projects", json=body) == {"organization": "invalid"}


def test_a_person_without_an_organization_can_own_projects(studio: Studio) -> None:
    made = make(studio.stranger, "Notes", private=True)
    assert made["full_name"] == f"{studio.stranger.login}/notes"
    studio.owner.refused(404, "GET", f"/projects/{made['id']}")
    body = {"title": "a", "organization": studio.world.organization}
    assert studio.stranger.faults("POST", "/projects", json=body) == {"organization": "invalid"}


# --- permissions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "reads", "edits", "deletes", "private"),
    [
        ({"member": "owner"}, 200, 200, 200, False),
        ({"member": "member"}, 200, 200, 403, True),
        ({"role": "read"}, 200, 403, 403, False),
        ({"role": "write"}, 200, 200, 403, False),
        ({"role": "admin"}, 200, 200, 200, False),
        ({}, 404, 404, 404, True),
    ],
    ids=["owner", "member", "read", "write", "admin", "stranger"],
)
def test_each_role_can_read_edit_or_delete(
    studio: Studio, place: dict[str, str], reads: int, edits: int, deletes: int, private: bool
) -> None:
    """`private` states whether a private project is hidden from the role."""
    caller = studio.add(**place)
    studio.owner.patch(studio.project, json={"private": True})
    hidden = caller.call("GET", studio.project).status_code == 404
    assert hidden == private
    assert len(caller.get("/projects")["projects"]) == (0 if hidden else 1)
    studio.owner.patch(studio.project, json={"private": False})
    assert len(caller.get("/projects")["projects"]) == (1 if reads == 200 else 0)
    for method, expected, needed in (("GET", reads, ""), ("PATCH", edits, "write"), ("DELETE", deletes, "admin")):
        answer = caller.call(method, studio.project, json={"title": "New"} if method == "PATCH" else None)
        assert answer.status_code == expected, method
        if answer.status_code == 403:
            assert answer.json()["code"] == "missing_role"
            assert needed in answer.json()["message"]


def test_a_member_keeps_access_to_projects_they_make_private(studio: Studio) -> None:
    made, shared = make(studio.member, "Secret", private=True), make(studio.member, "Shared")
    assert studio.member.get(f"/projects/{made['id']}")["project"] == made
    assert edit(studio.member, shared, private=True)["private"] is True
    assert edit(studio.member, shared, title="Ours")["title"] == "Ours"
    assert edit(studio.owner, shared, title="Mine")["private"] is True
    for each in (shared, made):
        assert studio.member.delete(f"/projects/{each['id']}") == {"success": True}


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("role", ["member", "write", "admin", "owner"])
def test_only_admins_can_change_visibility_and_name(studio: Studio, role: str, private: bool) -> None:
    """A writer could otherwise expose a private project to the organization, or lock a member out of an open one."""
    place = {"member": role} if role in ("owner", "member") else {"role": role}
    caller = studio.add(**place, **({"role": "write"} if role == "member" and private else {}))
    project = studio.owner.patch(studio.project, json={"private": private})["project"]
    studio.happened()
    bodies: list[JsonObject] = [
        {"private": not private, "title": "Taken"},
        {"name": "taken"},
        {"private": not private, "name": "taken"},
    ]
    if role in ("admin", "owner"):
        for body in [*bodies, {"private": private, "name": "website"}]:
            edit(caller, project, **body)
        return
    for body in bodies:
        refused = caller.refused(403, "PATCH", studio.project, json=body)
        assert (refused["code"], "admin" in refused["message"]) == ("missing_role", True)
        named = [each for each in body if each != "title"]
        assert all(f"`{each}`" in refused["message"] for each in named)
        assert [each["field"] for each in refused["errors"]] == named
    assert studio.happened() == []
    assert studio.owner.get(studio.project)["project"] == project
    # Unchanged values are allowed, and writers may still change the rest.
    assert edit(caller, project, private=private, name=project["name"], title="New", archive=True)["title"] == "New"


# --- edit, archive, delete ---------------------------------------------------------------------------------------


def test_an_edit_keeps_absent_fields_and_clears_null_ones(studio: Studio) -> None:
    made = make(studio.owner, avatar="https://cdn.example.com/a.png", private=True)
    path = f"/projects/{made['id']}"
    edited = edit(studio.owner, made, avatar=None)
    assert edited == {**made, "avatar": None, "updated_at": edited["updated_at"]}
    assert edited["updated_at"] > made["updated_at"]
    assert studio.owner.faults("PATCH", path, json={"title": None, "owner": 1}) == {
        "title": "invalid", "owner": "unknown",
    }  # fmt: skip
    studio.happened()
    for nothing in ({}, None, {"title": "Shop", "private": True, "archive": False}):
        assert studio.owner.patch(path, json=nothing)["project"] == edited
    assert studio.happened() == []


def test_an_archived_project_can_only_be_unarchived(studio: Studio) -> None:
    made = make(studio.owner)
    assert edit(studio.owner, made, archive=True)["archive"] is True
    for body in ({"title": "New"}, {"title": "New", "archive": True}):
        assert studio.owner.refused(409, "PATCH", f"/projects/{made['id']}", json=body)["code"] == "archived"
    edit(studio.owner, made, archive=True)
    again = edit(studio.owner, made, archive=False, title="New")
    assert (again["archive"], again["title"]) == (False, "New")
    assert [each.action for each in studio.happened()] == ["created", "archived", "unarchived"]
    edit(studio.owner, made, archive=True)
    studio.owner.delete(f"/projects/{made['id']}")


def test_a_deleted_project_is_gone_and_its_name_is_free(studio: Studio) -> None:
    first = make(studio.owner)
    assert studio.owner.delete(f"/projects/{first['id']}") == {"success": True}
    for method in ("GET", "PATCH", "DELETE"):
        studio.owner.refused(404, method, f"/projects/{first['id']}")
    assert [each["title"] for each in studio.owner.get("/projects")["projects"]] == ["Website"]
    second = make(studio.owner)
    assert second["name"] == "shop"
    assert second["repository_id"] != first["repository_id"]
    studio.owner.delete(f"/projects/{second['id']}")  # frees the name a second time
    assert make(studio.owner)["name"] == "shop"


def test_only_one_of_several_changes_with_the_same_if_match_succeeds(studio: Studio) -> None:
    seen = studio.owner.call("GET", studio.project).headers["etag"]

    def change(number: int) -> int:
        headers = {"If-Match": f'"other", {seen}'}
        return studio.owner.call("PATCH", studio.project, json={"title": f"{number}"}, headers=headers).status_code

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(change, range(6))) == [200, 412, 412, 412, 412, 412]
    assert studio.owner.call("DELETE", studio.project, headers={"If-Match": seen}).status_code == 412


# --- events ------------------------------------------------------------------------------------------------------


def test_each_change_is_one_event_and_in_the_audit_log(studio: Studio) -> None:
    admin = studio.add(member="member", role="admin")
    project = studio.owner.get(studio.project)["project"]
    edited = edit(admin, project, title="Intranet", private=True)
    archived = edit(studio.owner, project, archive=True, title="Old")
    edit(studio.owner, project, archive=False)
    studio.member.refused(404, "DELETE", studio.project)
    studio.owner.refused(422, "PATCH", studio.project, json={"name": "."})
    studio.owner.delete(studio.project)
    happened = studio.happened()
    assert [each.action for each in happened] == ["edited", "archived", "unarchived", "deleted"]
    for each in happened:
        assert each.payload["organization"]["login"] == studio.world.organization
        assert each.payload["repository"]["id"] == project["repository_id"]
        assert each.payload["repository"]["url"] == f"{studio.server.url}/repos/{studio.world.full_name}"
    assert [each.record for each in happened[:2]] == [edited, archived]
    assert happened[0].payload["sender"]["login"] == happened[0].payload["sender"]["username"] == admin.login
    changes = {"title": {"from": "Website", "to": "Intranet"}, "private": {"from": False, "to": True}}
    assert happened[0].changes == changes
    assert set(happened[1].changes) == {"title", "archive"}
    log = studio.owner.http.get(f"{studio.world.org_path}/audit-log").json()
    log = [each for each in reversed(log) if each["action"].startswith("project.") and each["status"] is None]
    assert [(each["action"], each["actor"], each["target"]) for each in log][::3] == [
        ("project.edit", admin.login, studio.world.full_name),
        ("project.delete", studio.owner.login, studio.world.full_name),
    ]
    assert log[0]["data"] == changes
    assert len(log) == 4


def test_hooks_of_the_organization_and_the_project_receive_the_events(studio: Studio, receiver: Receiver) -> None:
    other = make(studio.owner, "Other")
    places = (studio.world.org_path, studio.world.repo_path, f"/repos/{other['full_name']}")
    for place in places:
        studio.hook(f"{receiver.url}{place}", "project", place=place)
    make(studio.owner, "Third")
    studio.owner.patch(studio.project, json={"title": "New"})
    studio.owner.delete(studio.project)
    receiver.wait_for(lambda _: len(receiver.events("project")) >= 5)
    heard = [(each.path.removeprefix("/hook"), each.payload()["action"]) for each in receiver.events("project")]
    assert sorted(heard) == [
        (place, action)
        for place, actions in ((places[0], ("created", "deleted", "edited")), (places[1], ("deleted", "edited")))
        for action in actions
    ]


async def test_a_change_is_rolled_back_if_its_event_cannot_be_written(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are in one transaction, so there is no change without its event."""

    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no event")

    world = await make_world(services)
    monkeypatch.setattr(actions, "publish_audited", fail)
    transport = httpx.ASGITransport(build_app(services), raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {world.token}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/api/v1", headers=headers) as client:
        refused = await client.post("/projects", json={"title": "Shop"})
        assert (refused.status_code, refused.json()["code"]) == (500, "internal_error")
        assert "no event" not in refused.text
        assert [each["title"] for each in (await client.get("/projects")).json()["projects"]] == ["Website"]


# --- shared parameter parsing ------------------------------------------------------------------------------------


class Filters(msgspec.Struct):
    count: Annotated[int, Meta(ge=1, le=9)] | msgspec.UnsetType = msgspec.UNSET
    priority: Literal["low", "high"] | msgspec.UnsetType | None = msgspec.UNSET
    labels: list[str] | msgspec.UnsetType = msgspec.UNSET
    notes: parameters.LongText | msgspec.UnsetType = msgspec.UNSET
    fields: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


def test_query_text_is_converted_to_the_type_of_the_field() -> None:
    query = {"count": ["3"], "priority": [""], "labels": ["a", "b"], "notes": ["null"]}
    found = parameters.gather(Filters, query, {"fields": {"a": "b"}})
    assert found == Filters(count=3, priority=None, labels=["a", "b"], notes="null", fields={"a": "b"})
    assert parameters.gather(Filters, {}, {}) == Filters()


def test_errors_describe_the_expected_value() -> None:
    body = {"count": 10, "priority": "middle", "labels": "a", "notes": "ü" * 32_769, "fields": {"a": "\0"}}
    with pytest.raises(Invalid) as refused:
        parameters.gather(Filters, {}, body)
    assert [fault.message for fault in refused.value.faults] == [
        "count must be a whole number from 1 to 9",
        "priority must be one of high, low or null",
        "labels must be a list of text",
        "notes must be at most 64 KiB of text",
        "fields must be text without NUL characters",
    ]


def test_the_openapi_document_shows_the_enforced_limits() -> None:
    shown = {each.name: each for each in parameters.documented(Filters)}
    assert shown["count"].schema == {"type": "integer", "minimum": 1, "maximum": 9}
    create = next(each for each in routes if each.name == "create_project")
    title = next(each for each in create.query if each.name == "title")
    assert title.schema == {"type": "string", "minLength": 1, "maxLength": 255}
    assert not title.required  # may also be in the body
