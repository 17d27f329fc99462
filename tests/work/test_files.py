"""Files and folders: records, permissions and events."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.harness.receiver import Receiver
from tests.work.studio import Caller, JsonObject, Studio, without_addresses

HELLO = b"hello world"


def upload(caller: Caller, project: str, data: bytes = HELLO, name: str = "hello.txt", **fields: str) -> JsonObject:
    """Upload a file and return its record."""
    made: JsonObject = caller.post(f"{project}/files", files={"file": (name, data, "text/plain")}, data=fields)["file"]
    return made


def attempt(caller: Caller, project: str, **fields: str) -> Any:
    """Return the arguments of an upload request."""
    return {"files": {"file": ("hello.txt", HELLO, "text/plain")}, "data": fields}


def test_an_upload_returns_the_record(studio: Studio) -> None:
    folder = studio.owner.post(f"{studio.project}/folders", json={"title": "Plans"})["folder"]
    file = upload(studio.owner, studio.project, title="Greeting", folder=folder["id"], private="true")
    assert file == {
        "id": file["id"],
        "title": "Greeting",
        "file_link": file["file_link"],
        "user": file["user"],
        "project": {"id": studio.project_id, "title": "Website"},
        "private": True,
        "folder": {"id": folder["id"], "title": "Plans"},
        "task_id": None,
        "size": len(HELLO),
        "content_type": "text/plain",
        "sha256": hashlib.sha256(HELLO).hexdigest(),
        "created_at": file["created_at"],
        "updated_at": file["created_at"],
    }
    assert set(file["user"]) == {"id", "login", "username", "email", "avatar"}
    assert (file["user"]["username"], file["user"]["email"]) == (studio.world.owner, "octo@example.com")
    assert file["file_link"].startswith(f"{studio.server.url}/api/v1/files/{file['id']}/content?")
    assert studio.owner.get(f"/files/{file['id']}") == {"success": True, "file": file}
    created = studio.happened()
    assert [(each.name, each.action) for each in created] == [("folder", "created"), ("file", "created")]
    assert created[1].record == file


def test_form_fields_override_query_parameters(studio: Studio) -> None:
    params = {"title": "From the query", "private": "true"}
    made = studio.owner.post(f"{studio.project}/files", params=params, **attempt(studio.owner, studio.project))["file"]
    assert (made["title"], made["private"]) == ("From the query", True)
    both = attempt(studio.owner, studio.project, title="From the form")
    made = studio.owner.post(f"{studio.project}/files", params=params, **both)["file"]
    assert (made["title"], made["private"]) == ("From the form", True)


def test_all_invalid_parameters_are_named_at_once(studio: Studio) -> None:
    body = {"files": {"image": ("a.png", b"x")}, "data": {"title": " ", "private": "perhaps", "colour": "red"}}
    assert studio.owner.faults("POST", f"{studio.project}/files", **body) == {
        "image": "unknown",
        "title": "invalid",
        "private": "invalid",
        "colour": "unknown",
    }
    assert studio.happened() == []
    other = studio.owner.post("/projects", json={"title": "Other"})["project"]["id"]
    theirs = studio.owner.post(f"/projects/{other}/folders", json={"title": "Theirs"})["folder"]["id"]
    for folder in (theirs, "fld_" + "0" * 26):
        elsewhere = attempt(studio.owner, studio.project, folder=folder)
        assert studio.owner.faults("POST", f"{studio.project}/files", **elsewhere) == {"folder": "invalid"}


def test_files_are_listed_by_age_and_by_folder(studio: Studio) -> None:
    folder = studio.owner.post(f"{studio.project}/folders", json={"title": "Plans"})["folder"]
    first = upload(studio.owner, studio.project, name="1")
    second = upload(studio.owner, studio.project, name="2", folder=folder["id"])
    third = upload(studio.owner, studio.project, name="3")
    path = f"{studio.project}/files"
    assert studio.owner.get(path) == {"success": True, "files": [first, second, third]}
    assert studio.owner.get(path, params={"folder": folder["id"]})["files"] == [second]
    assert studio.owner.get(path, params={"folder": "fld_none"})["files"] == []


def test_a_deleted_file_is_gone_until_it_is_restored(studio: Studio) -> None:
    file = upload(studio.owner, studio.project)
    path = f"/files/{file['id']}"
    assert studio.owner.delete(path) == {"success": True}
    studio.owner.refused(404, "GET", path)
    studio.owner.refused(404, "GET", f"{path}/content")
    studio.owner.refused(404, "DELETE", path)
    assert studio.nobody.http.get(file["file_link"]).status_code == 404
    assert studio.owner.get(f"{studio.project}/files")["files"] == []
    restored = studio.owner.post(f"{path}/restore")["file"]
    assert restored == {**file, "updated_at": restored["updated_at"]}
    assert restored["updated_at"] > file["updated_at"]
    assert studio.owner.get(path)["file"] == restored
    assert studio.nobody.http.get(file["file_link"]).content == HELLO
    assert studio.owner.post(f"{path}/restore")["file"] == restored
    happened = studio.happened()
    assert [(each.name, each.action) for each in happened] == [
        ("file", "created"),
        ("file", "deleted"),
        ("file", "created"),
    ]
    assert happened[1].record["id"] == file["id"]
    assert happened[2].record == restored


def test_clients_see_public_files_and_can_delete_their_own(studio: Studio) -> None:
    public = upload(studio.owner, studio.project, name="public")
    private = upload(studio.owner, studio.project, name="private", private="true")
    own = upload(studio.client, studio.project, name="own")
    assert [each["title"] for each in studio.client.get(f"{studio.project}/files")["files"]] == ["public", "own"]
    assert studio.client.call("GET", f"/files/{public['id']}/content").content == HELLO
    for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", ""), ("POST", "/restore")):
        studio.client.refused(404, method, f"/files/{private['id']}{path}")
    hidden = studio.client.refused(
        403, "POST", f"{studio.project}/files", **attempt(studio.client, studio.project, private="true")
    )
    assert hidden["code"] == "missing_role"
    assert studio.client.refused(403, "DELETE", f"/files/{public['id']}")["code"] == "missing_role"
    assert studio.client.delete(f"/files/{own['id']}") == {"success": True}
    assert studio.client.post(f"/files/{own['id']}/restore")["file"]["title"] == "own"
    studio.owner.delete(f"/files/{public['id']}")
    studio.client.refused(403, "POST", f"/files/{public['id']}/restore")
    folder = studio.owner.post(f"{studio.project}/folders", json={"title": "Plans"})["folder"]["id"]
    assert upload(studio.client, studio.project, folder=folder)["folder"] == {"id": folder, "title": "Plans"}


def test_the_files_of_a_deleted_project_are_gone(studio: Studio) -> None:
    file = upload(studio.owner, studio.project)
    studio.owner.delete(studio.project)
    studio.owner.refused(404, "GET", f"/files/{file['id']}")
    assert studio.nobody.http.get(file["file_link"]).status_code == 404


def test_folders_can_be_created_listed_and_deleted_when_empty(studio: Studio) -> None:
    path = f"{studio.project}/folders"
    first = studio.owner.post(path, json={"title": " Plans "})["folder"]
    second = studio.member.post(path, params={"title": "Drafts"})["folder"]
    assert first == {**first, "title": "Plans"}
    assert set(first) == {"id", "title", "created_at", "updated_at"}
    assert studio.client.get(path) == {"success": True, "folders": [first, second]}
    file = upload(studio.owner, studio.project, folder=first["id"])
    assert studio.owner.refused(409, "DELETE", f"/folders/{first['id']}")["code"] == "not_empty"
    studio.owner.delete(f"/files/{file['id']}")
    assert studio.owner.delete(f"/folders/{first['id']}") == {"success": True}
    studio.owner.refused(404, "DELETE", f"/folders/{first['id']}")
    assert studio.owner.get(path)["folders"] == [second]
    assert studio.owner.post(f"/files/{file['id']}/restore")["file"]["folder"] is None
    assert [(each.name, each.action) for each in studio.happened()] == [
        ("folder", "created"),
        ("folder", "created"),
        ("file", "created"),
        ("file", "deleted"),
        ("folder", "deleted"),
        ("file", "created"),
    ]


def test_a_folder_requires_a_title(studio: Studio) -> None:
    path = f"{studio.project}/folders"
    assert studio.owner.faults("POST", path) == {"title": "missing"}
    assert studio.owner.faults("POST", path, json={"title": "", "parent": "x"}) == {
        "title": "invalid",
        "parent": "unknown",
    }


def test_concurrent_upload_and_deletion_of_a_folder_exclude_each_other(studio: Studio) -> None:
    for _ in range(5):
        folder = studio.owner.post(f"{studio.project}/folders", json={"title": "Contested"})["folder"]
        into = attempt(studio.member, studio.project, folder=folder["id"])
        with ThreadPoolExecutor(2) as pool:
            filled = pool.submit(studio.member.call, "POST", f"{studio.project}/files", **into)
            deleted = pool.submit(studio.owner.call, "DELETE", f"/folders/{folder['id']}")
            outcome = (filled.result().status_code, deleted.result().status_code)
        assert outcome in ((200, 409), (422, 200)), outcome
        if outcome[0] == 200:
            assert filled.result().json()["file"]["folder"]["id"] == folder["id"]
            assert studio.owner.get(f"/files/{filled.result().json()['file']['id']}")["file"]["folder"] is not None


def test_a_repeated_upload_gets_the_stored_response(studio: Studio) -> None:
    headers = {"Idempotency-Key": "upload-1"}
    path, body = f"{studio.project}/files", attempt(studio.owner, studio.project, title="Once")
    before = studio.server.data / "files"
    first = studio.owner.call("POST", path, headers=headers, **body)
    stored = sorted(each.name for each in before.rglob("blb_*"))
    again = studio.owner.call("POST", path, headers=headers, **body)  # with another multipart boundary
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.content == first.content
    assert again.headers["idempotent-replayed"] == "true"
    assert sorted(each.name for each in before.rglob("blb_*")) == stored
    assert [each["title"] for each in studio.owner.get(path)["files"]] == ["Once"]
    for other in (
        {"files": {"file": ("hello.txt", b"other", "text/plain")}, "data": {"title": "Once"}},
        {"files": {"file": ("other.txt", HELLO, "text/plain")}, "data": {"title": "Once"}},
        attempt(studio.owner, studio.project, title="Twice"),
    ):
        assert studio.owner.faults("POST", path, headers=headers, **other) == {
            "Idempotency-Key": "idempotency_key_reused"
        }
    assert sorted(each.name for each in before.rglob("blb_*")) == stored
    assert [each.action for each in studio.happened()] == ["created"]


@pytest.mark.parametrize("action", ["created", "deleted"])
def test_a_webhook_receives_a_working_link(studio: Studio, receiver: Receiver, action: str) -> None:
    body = {"name": "web", "config": {"url": receiver.url, "content_type": "json"}, "events": ["file"]}
    studio.owner.http.post(f"{studio.world.repo_path}/hooks", json=body).raise_for_status()
    file = upload(studio.owner, studio.project, private="true")
    if action == "deleted":
        studio.owner.delete(f"/files/{file['id']}")
    wanted = {"created"} if action == "created" else {"created", "deleted"}
    receiver.wait_for(lambda requests: len([each for each in requests if each.event == "file"]) == len(wanted))
    told = {each.payload()["action"]: each.payload() for each in receiver.events("file")}  # in any order
    assert told.keys() == wanted
    assert told["created"]["file"] == without_addresses(file)
    answer = studio.nobody.http.get(told["created"]["file"]["file_link"])
    assert answer.status_code == (200 if action == "created" else 404)
