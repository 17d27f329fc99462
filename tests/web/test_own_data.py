"""`/settings/account`: downloading one's own data and deleting one's own account."""

from __future__ import annotations

from tests.harness.server import Server
from tests.web.browser import PASSWORD
from tests.web.places_kit import age_sign_in
from tests.web.studio import HOSTILE, Studio, page_of, text_of

HERE = "/settings/account"
DELETE = f"{HERE}/delete"


def test_the_download_contains_the_lists_of_the_api(studio: Studio) -> None:
    column, owner = studio.add_column("Doing"), studio.team.owner
    mine = [studio.add_task(column, HOSTILE, assignees=[owner.login]) for _ in range(3)]
    studio.add_task(column, "of nobody")
    studio.call("POST", f"/tasks/{mine[0]}/task_comments", text="Done by me")
    studio.call("POST", f"{studio.project}/timesheets", task_id=mine[0], duration="1h 30m")
    assert f'href="{HERE}"' in page_of(studio.owner, "/settings")
    answer = studio.owner.fill(HERE, f"{HERE}/export")
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="{owner.login}.json"'
    copy = answer.json()
    assert copy["account"]["login"] == owner.login
    assert {studio.team.world.organization} <= {each["login"] for each in copy["organizations"]}
    assert [each["id"] for each in copy["tasks"]] == sorted(mine)
    assert [each["text"] for each in copy["comments"]] == ["Done by me"]
    assert [each["duration"] for each in copy["timesheets"]] == [90 * 60_000]
    assert copy["files"] == copy["apps"] == []
    assert copy["sessions"][0]["user_agent"] == "test"
    assert {"tokens", "projects", "notifications", "notification_settings", "billing"} <= copy.keys()


def test_a_long_list_is_downloaded_completely(studio: Studio) -> None:
    column, owner = studio.add_column("Doing"), studio.team.owner
    mine = [studio.add_task(column, "First", assignees=[owner.login])]
    tasks = [{"action": "create", "column_id": column, "title": "Task", "assignees": [owner.login]}] * 100
    mine += [each["id"] for each in studio.call("POST", "/tasks/bulk", operations=tasks)["tasks"]]
    copy = studio.owner.fill(HERE, f"{HERE}/export").json()
    assert [each["id"] for each in copy["tasks"]] == sorted(mine)


def test_an_account_is_deleted_after_typing_its_login(studio: Studio) -> None:
    login = studio.team.member.login
    assert f'href="{DELETE}"' in page_of(studio.member, HERE)
    refused = studio.member.fill(DELETE, login="another")
    assert (refused.status_code, "Nothing was deleted." in refused.text) == (422, True)
    done = studio.member.fill(DELETE, login=f" {login.upper()} ")
    assert done.status_code == 200
    assert "no longer exists" in text_of(done.text)
    assert not studio.member.is_signed_in()
    assert studio.member.sign_in(studio.team.member, PASSWORD).status_code == 422
    assert login not in page_of(studio.owner, f"/{studio.team.world.organization}/people")


def test_obstacles_to_deletion_are_named(studio: Studio) -> None:
    organization = studio.team.world.organization
    page = text_of(page_of(studio.owner, DELETE))
    assert f"is the last active owner of {organization}; make another member an owner" in page
    assert 'name="login"' not in studio.owner.get(DELETE).text
    refused = studio.owner.fill_csrf(DELETE, login=studio.team.owner.login)
    assert (refused.status_code, organization in refused.text) == (422, True)
    german = studio.owner.get(DELETE, headers={"Accept-Language": "de"})
    assert f"der letzte aktive Inhaber von {organization}" in text_of(german.text)


def test_deleting_an_account_needs_a_recent_sign_in(server: Server, studio: Studio) -> None:
    age_sign_in(server, studio.team.member)
    for path, action in ((HERE, f"{HERE}/export"), (DELETE, DELETE)):
        answer = studio.member.fill(path, action)
        assert answer.headers["location"].startswith("/login/confirm"), path
