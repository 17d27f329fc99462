"""The trash of a project: deleted objects and restoring them."""

from __future__ import annotations

from tests.harness.server import Server
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, send, text_of


def add_file(studio: Studio, title: str) -> str:
    answer = studio.api.post(
        f"/api/v1{studio.project}/files", files={"file": ("a.txt", b"text", "text/plain")}, data={"title": title}
    )
    assert answer.is_success, answer.text
    return str(answer.json()["file"]["id"])


def test_deleted_tasks_and_files_are_restored(studio: Studio) -> None:
    task, file = studio.add_task(studio.add_column("To do"), HOSTILE), add_file(studio, "Plan")
    path = f"{studio.base}/trash"
    assert "The trash is empty." in text_of(page_of(studio.member, path))
    studio.call("DELETE", f"/tasks/{task}")
    studio.call("DELETE", f"/files/{file}")
    page = page_of(studio.member, path)
    assert "<img" not in page[page.index("<main") :]
    assert page.index(f'id="{file}"') < page.index(f'id="{task}"')
    for kind, deleted in (("task", task), ("file", file)):
        answer = send(studio.member, f"{path}/{kind}/{deleted}")
        assert (answer.status_code, answer.headers["location"]) == (303, path), answer.text
        studio.call("GET", f"/{kind}s/{deleted}")
    assert "The trash is empty." in text_of(page_of(studio.member, path))
    happened = text_of(page_of(studio.member, f"{studio.base}/activity"))
    assert "restored the file “ Plan ”." in happened
    assert happened.count("restored the task") == 1
    assert happened.count("created the task") == 1, "when it was new"
    own = text_of(page_of(studio.member, f"{studio.base}/tasks/{task}/history"))
    assert "restored the task." in own
    assert own.count(HOSTILE) == text_of(page_of(studio.member, f"{studio.base}/tasks/{task}/history?before=1")).count(
        HOSTILE
    ), "the lines do not name it again"
    assert send(studio.member, f"{path}/column/{task}").status_code == 404


def test_clients_and_strangers_cannot_restore(server: Server, studio: Studio) -> None:
    task, file = studio.add_task(studio.add_column("To do"), "Logo"), add_file(studio, "Plan")
    studio.call("DELETE", f"/tasks/{task}")
    studio.call("DELETE", f"/files/{file}")
    assert studio.client.get(f"{studio.base}/trash").status_code == 403
    assert f"{studio.base}/trash" not in page_of(studio.client, f"{studio.base}/list")
    with open_studio(server) as other:
        for kind, deleted in (("task", task), ("file", file)):
            assert send(studio.client, f"{studio.base}/trash/{kind}/{deleted}").status_code == 403
            for base in (studio.base, other.base):
                assert send(other.owner, f"{base}/trash/{kind}/{deleted}").status_code == 404
    assert studio.api.get(f"/api/v1/tasks/{task}").status_code == 404
    assert studio.api.get(f"/api/v1/files/{file}").status_code == 404


def test_objects_of_another_project_are_not_restored(studio: Studio) -> None:
    title = "Other"
    second = studio.call("POST", "/projects", title=title)["project"]
    file, task = add_file(studio, "Plan"), studio.add_task(studio.add_column("To do"), "Logo")
    for kind, deleted in (("file", file), ("task", task)):
        studio.call("DELETE", f"/{kind}s/{deleted}")
        assert send(studio.owner, f"/{second['full_name']}/trash/{kind}/{deleted}").status_code == 404
        assert studio.api.get(f"/api/v1/{kind}s/{deleted}").status_code == 404
