"""People and organizations appear by name, and changes by other users are attributed."""

from __future__ import annotations

import re

from tests.web.studio import Studio, page_of, send, text_of, undo
from workhook.web.frame.formats import initials
from workhook.web.frame.names import Names, called, tint
from workhook.work.kernel.people import person_of_values


def call_member(studio: Studio, name: str) -> None:
    assert send(studio.member, "/settings/profile", name=name).status_code == 303


def options(page: str, field: str) -> dict[str, str]:
    """Return the values and labels of a select."""
    select = page[page.index(f'id="{field}"') :]
    found = re.findall(r'<option value="([^"]*)"[^>]*>([^<]*)</option>', select[: select.index("</select>")])
    return {value: text for value, text in found if value}


def test_a_shared_name_is_followed_by_the_login() -> None:
    mara, jonas = person_of_values(1, "mara", None, None, None, "Mara"), person_of_values(2, "jonas", None, None, None)
    other = person_of_values(3, "mallory", None, None, None, "mara")
    assert [called(mara), called(jonas)] == ["Mara", "jonas"]
    assert Names([mara, jonas]).by_login == {"mara": "Mara", "jonas": "jonas"}
    assert Names([mara, other]).by_login == {"mara": "Mara (mara)", "mallory": "mara (mallory)"}
    assert Names([mara])(other) == "mara (mallory)", "who is not one of them does not pass for one"
    assert tint(mara) != tint(jonas)


def test_initials_consist_of_letters() -> None:
    assert [initials(name) for name in ("Mara Lind", "M<b>ax", "(o)", "ada", "Ölçer Ünal", "🦄")] == [
        "ML", "MA", "O", "AD", "ÖÜ", "?",
    ]  # fmt: skip


def test_people_appear_by_name_everywhere(studio: Studio) -> None:
    call_member(studio, "Jonas Müller")
    login = studio.team.member.login
    task = studio.add_task(studio.add_column("To do"), "Logo", assignees=[login])
    path = f"{studio.base}/tasks/{task}"
    assert send(studio.member, f"{path}/comments", text="Hello").status_code == 303
    for place, field in (("", "filter-assignee"), ("/list", "filter-assignee"), ("/activity", "filter-actor")):
        page = page_of(studio.owner, studio.base + place)
        assert options(page, field)[login] == "Jonas Müller", place
    for place in ("", "/list", "/activity", f"/tasks/{task}", f"/tasks/{task}/history"):
        page = page_of(studio.owner, studio.base + place)
        assert ">JM</span>" in page, place
    # Mentions are written as logins, and the suggestions are in a template.
    words = text_of(re.sub(r"<template.*?</template>", "", page_of(studio.owner, path), flags=re.DOTALL))
    assert "JM Jonas Müller" in words
    assert login not in words
    assert "Jonas Müller commented on" in text_of(page_of(studio.owner, f"{studio.base}/activity"))


def test_the_api_and_events_do_not_expose_names(studio: Studio) -> None:
    call_member(studio, "Jonas Müller")
    task = studio.add_task(studio.add_column("To do"), "Logo", assignees=[studio.team.member.login])
    [person] = studio.task(task)["assignees"]
    assert set(person) == {"id", "login", "username", "email", "avatar"}
    assert "Jonas" not in str(studio.call("GET", f"{studio.project}/activity"))


def test_the_organization_appears_by_name(studio: Studio) -> None:
    crumbs = re.compile(rf'<a href="/{studio.team.world.organization}"[^>]*>Acme</a>')
    for path in (
        studio.base,
        f"{studio.base}/settings",
        f"{studio.base}/time",
        f"/{studio.team.world.organization}/people",
    ):
        assert crumbs.search(page_of(studio.owner, path)), path
    assert "Everyone in Acme already has access" in text_of(page_of(studio.owner, f"{studio.base}/settings"))


def test_a_comment_hidden_or_shown_by_an_admin_is_attributed(studio: Studio) -> None:
    send(studio.owner, "/settings/profile", name="Mara Lind")
    task = studio.add_task(studio.add_column("To do"), "Logo")
    path = f"{studio.base}/tasks/{task}"
    said = send(studio.member, f"{path}/comments", text="I pay 50")
    made = said.headers["location"].rpartition("-")[2]
    own = studio.call("POST", f"/tasks/{task}/task_comments", text="Mine")["task_comment"]["id"]
    assert "edited" not in text_of(page_of(studio.client, path))
    assert send(studio.owner, f"{path}/comments/{made}/edit", private="1").status_code == 303
    studio.call("PATCH", f"/task_comments/{own}", text="Still mine")
    [first, second] = re.split(r'<li id="comment-', page_of(studio.member, path))[1:]
    assert "hidden from clients by <bdi>Mara Lind</bdi>" in first
    assert "I pay 50" in first
    assert "edited <time" in second
    assert send(studio.owner, f"{path}/comments/{made}/edit").status_code == 303
    assert "shown to clients by <bdi>Mara Lind</bdi>" in page_of(studio.member, path)
    seen = page_of(studio.client, path)
    assert "I pay 50" in seen
    assert "shown to clients" not in seen


def test_a_published_event_does_not_change_a_comment(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo")
    path = f"{studio.base}/tasks/{task}"
    comment = int(send(studio.member, f"{path}/comments", text="Agreed").headers["location"].rpartition("-")[2])
    assert send(studio.owner, f"{path}/comments/{comment}/delete").status_code == 303
    forged = {"action": "edited", "task_comment": {"id": comment, "text": "Not agreed"}}
    body = {"event": "task_comment", "action": "edited", "payload": forged}
    answer = studio.api.post(f"{studio.team.world.repo_path}/events", json=body)
    assert answer.status_code == 202, answer.text
    page = page_of(studio.client, path)
    assert "Deleted by <bdi>Octo</bdi>" in page
    assert "Not agreed" not in page


def test_content_deleted_by_an_admin_leaves_a_notice(studio: Studio) -> None:
    answer = studio.api.post(f"/api/v1{studio.project}/files", files={"file": ("a.txt", b"x", "text/plain")})
    place = f"{studio.base}/files/{answer.json()['file']['id']}"
    said = send(studio.member, f"{place}/comments", text="First words")
    comment = f"{place}/comments/{said.headers['location'].rpartition('-')[2]}"
    send(studio.client, f"{comment}/replies", body="An answer")
    reply = re.findall(r'id="reply-(\d+)"', page_of(studio.client, place))[0]
    for form in ("edit", "delete"):
        assert f'action="{comment}/{form}"' not in page_of(studio.client, place)
        assert f'action="{comment}/replies/{reply}/{form}"' not in page_of(studio.member, place)
    assert send(studio.member, f"{comment}/replies/{reply}/edit", body="Put in a mouth").status_code == 403
    assert send(studio.owner, f"{comment}/replies/{reply}/edit", body="Put in a mouth").status_code == 403
    assert send(studio.owner, f"{comment}/replies/{reply}/delete").status_code == 303
    assert send(studio.owner, f"{comment}/delete").status_code == 303
    for browser in (studio.member, studio.client):
        page = page_of(browser, place)
        assert page.count("Deleted by <bdi>Octo</bdi>") == 2
        assert "First words" not in page
        assert "An answer" not in page
    activity = text_of(page_of(studio.owner, f"{studio.base}/activity"))
    assert f"Octo deleted a reply by {studio.team.client.login} to a comment" in activity
    assert f"Octo deleted a comment by {studio.team.member.login} on the file" in activity
    assert send(studio.owner, f"{comment}/delete").status_code == 303
    assert "Deleted by" not in page_of(studio.member, place)


def test_the_history_of_a_task_attributes_deleted_comments(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo")
    path = f"{studio.base}/tasks/{task}"
    comment = send(studio.client, f"{path}/comments", text="Ours").headers["location"].rpartition("-")[2]
    page = page_of(studio.member, path)
    assert f"{path}/comments/{comment}/edit" not in page
    assert f"{path}/comments/{comment}/delete" not in page
    assert send(studio.member, f"{path}/comments/{comment}/delete").status_code == 403
    owned = page_of(studio.owner, path)
    assert "Hide from clients" in owned
    assert f'id="comment-text-{comment}"' not in owned
    assert send(studio.owner, f"{path}/comments/{comment}/delete").status_code == 303
    assert "Deleted by <bdi>Octo</bdi>" in page_of(studio.client, path)
    history = text_of(page_of(studio.member, f"{path}/history"))
    assert f"Octo deleted a comment by {studio.team.client.login} ." in history


def test_time_edited_by_another_user_is_attributed(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo")
    entry = studio.call("POST", f"{studio.project}/timesheets", task_id=task, duration=60_000)["timesheet"]["id"]
    studio.call("PATCH", f"/timesheets/{entry}", notes="mine")
    week, own = f"{studio.base}/time", f"{studio.base}/time/{entry}"
    assert "edited by" not in text_of(page_of(studio.owner, week))
    send(studio.member, f"{own}/edit", task_id=task, notes="yours")
    for path in (week, own):
        assert f"edited by <bdi>{studio.team.member.login}</bdi>" in page_of(studio.owner, path), path


def test_clients_filter_by_people_they_can_assign(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo")
    assert send(studio.client, f"{studio.base}/columns/{studio.task(task)['column']['id']}/tasks", title="Own")
    own = next(each for each in studio.call("GET", f"{studio.project}/tasks")["tasks"] if each["title"] == "Own")
    offered = options(page_of(studio.client, f"{studio.base}/tasks/{own['id']}"), "assign")
    for place in ("", "/list"):
        assert options(page_of(studio.client, studio.base + place), "filter-assignee") == offered
    team = {studio.team.owner.login, studio.team.member.login, studio.team.client.login}
    assert set(offered) == team


def test_a_file_is_hidden_from_clients_and_shown_again(studio: Studio) -> None:
    upload = {"file": ("offer.txt", b"x", "text/plain")}
    file = studio.api.post(f"/api/v1{studio.project}/files", files=upload).json()["file"]["id"]
    place = f"{studio.base}/files/{file}"
    assert "Hide from clients" in page_of(studio.member, place)
    assert "Hide from clients" not in page_of(studio.client, place)
    assert send(studio.client, f"{place}/sight", private="1").status_code == 403
    hidden = send(studio.member, f"{place}/sight", private="1")
    assert hidden.headers["location"] == place
    assert studio.client.get(place).status_code == 404
    assert undo(studio.member, hidden).status_code == 303
    assert studio.client.get(place).status_code == 200
    send(studio.member, f"{place}/sight", private="1")
    assert "Show to clients" in page_of(studio.member, place)
    send(studio.member, f"{place}/sight", private="0")
    assert studio.call("PATCH", f"/files/{file}", private=True)["file"]["private"] is True


def test_the_people_page_links_to_client_invitations(studio: Studio) -> None:
    people = f"/{studio.team.world.organization}/people"
    link = f'href="{studio.base}/settings#clients"'
    assert link in page_of(studio.owner, people)
    assert link not in page_of(studio.member, people)


def test_a_removed_client_is_not_offered_to_create_a_project(studio: Studio) -> None:
    [client] = studio.call("GET", f"{studio.project}/clients")["clients"]
    studio.call("DELETE", f"/clients/{client['id']}")
    words = text_of(page_of(studio.client, "/"))
    assert "Create a project" not in words
    assert "You don’t have access to any projects." in words
    assert "Projects you create here belong to you" in text_of(page_of(studio.client, f"/{studio.team.client.login}"))
