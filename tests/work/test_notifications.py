"""What people are told of, who is not told, and what is seen of it later."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness.waiting import until
from tests.work.scene import Scene
from tests.work.studio import Caller, Studio
from workhook.core.clock import DAY_MS, HOUR_MS, MINUTE_MS, now_ms, to_millis_text
from workhook.hooks.actions import deactivate_failing
from workhook.hooks.queries import find_hook
from workhook.hooks.records import HookOwner
from workhook.http.calls import Services
from workhook.identity.notifications.schemas import notifications
from workhook.identity.queries import find_account, find_repository
from workhook.identity.tokens.issue import FINE_GRAINED, issue
from workhook.storage.metadata import big
from workhook.work.chores import CHORES, run_once
from workhook.work.history.notifications import pruning

_date_back = sa.update(notifications).where(notifications.c.id == big("id")).values(created_at=big("at"))


def inbox(person: Caller, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = person.get("/me/notifications", params=query)["notifications"]
    return found


def told(person: Caller) -> list[tuple[str, str]]:
    """The kind of each, and what it is about, the newest first."""
    return [(each["kind"], each["subject"]["title"]) for each in inbox(person)]


def run_chore(studio: Studio, name: str, now: int | None = None) -> int:
    [chore] = [each for each in CHORES if each.name == name]
    done: int = studio.server.run(partial(run_once, chore=chore, now=now or now_ms()))
    return done


def add_to_private(studio: Studio, *people: Caller) -> None:
    studio.owner.patch(studio.project, json={"private": True})
    for each in people:
        studio.owner.post(f"{studio.project}/members", json={"username": each.login})


# --- mentions ---------------------------------------------------------------------------------------------------------


def test_who_is_mentioned_is_told(studio: Studio) -> None:
    task_id = studio.task(title="Landing page")
    text = f"**Please** look, @{studio.member.login} and @{studio.owner.login}"
    comment = studio.owner.post(f"/tasks/{task_id}/task_comments", json={"text": text})["task_comment"]
    [only] = inbox(studio.member)
    assert only["kind"] == "mention"
    assert only["unread"] is True
    assert only["read_at"] is None
    assert only["actor"]["login"] == studio.owner.login
    assert only["organization"] == studio.world.organization
    assert only["project"]["id"] == studio.project_id
    assert only["subject"] == {"type": "task", "id": task_id, "title": "Landing page"}
    assert only["text"].startswith("Please look, @")
    assert only["html_url"].endswith(f"/{studio.world.full_name}/tasks/{task_id}#comment-{comment['id']}")
    assert inbox(studio.owner) == []  # nobody is told of their own act
    assert inbox(studio.stranger) == []


def test_an_edit_tells_who_is_named_anew(studio: Studio) -> None:
    other = studio.add(member="member")
    path = f"/tasks/{studio.task()}/task_comments"
    comment = studio.owner.post(path, json={"text": f"@{studio.member.login}"})["task_comment"]
    studio.owner.patch(f"/task_comments/{comment['id']}", json={"text": f"@{studio.member.login} @{other.login}"})
    assert len(inbox(studio.member)) == 1
    assert len(inbox(other)) == 1


def test_a_client_is_told_when_a_comment_is_shown_and_no_longer_when_it_is_hidden(studio: Studio) -> None:
    path = f"/tasks/{studio.task()}/task_comments"
    text = f"@{studio.client.login} @{studio.member.login}"
    comment = studio.owner.post(path, json={"text": text, "private": True})["task_comment"]
    assert inbox(studio.client) == []
    studio.owner.patch(f"/task_comments/{comment['id']}", json={"private": False})
    assert len(inbox(studio.client)) == len(inbox(studio.member)) == 1
    studio.owner.patch(f"/task_comments/{comment['id']}", json={"private": True})
    assert inbox(studio.client) == []
    assert len(inbox(studio.member)) == 1


def test_replies_and_comments_on_files_tell_too(studio: Studio) -> None:
    file_id = studio.file("plan.txt")
    comment = studio.owner.post(f"/files/{file_id}/file_comments", json={"text": f"@{studio.member.login}"})
    comment_id = comment["id"]
    reply = studio.owner.post(
        f"/file_comments/{comment_id}/comments", json={"body": f"<p>Once more, @{studio.member.login}</p>"}
    )["comment"]
    newest, first = inbox(studio.member)
    assert first["subject"] == newest["subject"] == {"type": "file", "id": file_id, "title": "plan.txt"}
    assert first["html_url"].endswith(f"/files/{file_id}#comment-{comment_id}")
    assert newest["html_url"].endswith(f"#reply-{reply['id']}")
    assert newest["text"] == f"Once more, @{studio.member.login}"
    studio.owner.delete(f"/file_comments/{comment_id}")
    assert inbox(studio.member) == []  # it goes with what it is about


# --- assignments ------------------------------------------------------------------------------------------------------


def test_who_is_assigned_by_somebody_else_is_told(studio: Studio) -> None:
    people = [studio.member.login, studio.owner.login]
    task_id = studio.task(title="Logo", assignees=people)
    assert told(studio.member) == [("assignment", "Logo")]
    assert inbox(studio.owner) == []
    studio.member.patch(f"/tasks/{task_id}", json={"assignees": [studio.member.login]})
    studio.member.patch(f"/tasks/{task_id}", json={"assignees": people})
    assert told(studio.owner) == [("assignment", "Logo")]
    assert told(studio.member) == [("assignment", "Logo")]  # was on it already


def test_many_tasks_at_once_tell_each_person_of_each(studio: Studio) -> None:
    column_id, kept = studio.column(), studio.task(title="Kept", assignees=[studio.member.login])
    operations: list[dict[str, Any]] = [
        {"action": "create", "column_id": column_id, "title": each, "assignees": [studio.member.login]}
        for each in ("One", "Two")
    ]
    operations.append({"action": "edit", "id": kept, "assignees": [studio.member.login, studio.client.login]})
    studio.owner.post("/tasks/bulk", json={"operations": operations})
    assert sorted(told(studio.member)) == [("assignment", "Kept"), ("assignment", "One"), ("assignment", "Two")]
    assert told(studio.client) == [("assignment", "Kept")]
    assert {each["project"]["id"] for each in inbox(studio.member)} == {studio.project_id}


def test_what_is_in_the_trash_tells_nothing(studio: Studio) -> None:
    task_id = studio.task(assignees=[studio.member.login])
    studio.owner.delete(f"/tasks/{task_id}")
    assert inbox(studio.member) == []
    studio.owner.post(f"/tasks/{task_id}/restore")
    assert len(inbox(studio.member)) == 1


# --- deadlines --------------------------------------------------------------------------------------------------------


def test_deadlines_of_the_next_day_are_told_of_once(studio: Studio) -> None:
    soon, later = (to_millis_text(now_ms() + each) for each in (2 * HOUR_MS, 2 * DAY_MS))
    mine = [studio.owner.login]
    task_id = studio.task(title="Soon", deadline=soon, assignees=mine)
    studio.task(title="Later", deadline=later, assignees=mine)
    studio.task(title="Nobody's", deadline=soon)
    studio.task(title="Overdue", deadline=to_millis_text(now_ms() - HOUR_MS), assignees=mine)
    run_chore(studio, "deadlines")
    until(lambda: told(studio.owner) == [("deadline", "Soon")])  # the server may be at it, too
    assert inbox(studio.owner)[0]["deadline"] == soon
    assert inbox(studio.owner)[0]["actor"] is None
    run_chore(studio, "deadlines")
    assert len(inbox(studio.owner)) == 1
    studio.owner.patch(f"/tasks/{task_id}", json={"deadline": to_millis_text(now_ms() + 3 * HOUR_MS)})
    run_chore(studio, "deadlines")
    until(lambda: told(studio.owner) == [("deadline", "Soon")] * 2)
    run_chore(studio, "deadlines", now_ms() + DAY_MS + HOUR_MS)
    until(lambda: told(studio.owner)[0] == ("deadline", "Later"))


def test_no_deadline_is_told_of_in_an_archived_project_or_to_who_left(studio: Studio) -> None:
    member = studio.add(member="member")
    add_to_private(studio, member)
    soon = to_millis_text(now_ms() + HOUR_MS)
    done = studio.column("Done", stage="done")
    studio.task(done, title="Done", deadline=soon, assignees=[studio.owner.login])
    studio.task(title="Left", deadline=soon, assignees=[member.login])
    studio.owner.delete(f"{studio.project}/members/{member.login}")
    run_chore(studio, "deadlines")
    assert inbox(studio.owner) == []
    studio.owner.post(f"{studio.project}/members", json={"username": member.login})
    assert told(member) == [("assignment", "Left")]  # of when they were there
    studio.task(title="Archived", deadline=soon, assignees=[studio.owner.login])
    studio.owner.patch(studio.project, json={"archive": True})
    run_chore(studio, "deadlines")
    assert inbox(studio.owner) == []


# --- money ------------------------------------------------------------------------------------------------------------


def test_owners_and_clients_are_told_of_invoices_and_payments(studio: Studio, scene: Scene) -> None:
    second = studio.add(member="owner")
    assert inbox(studio.client) == []
    invoice_id = scene.invoice("send")
    number = studio.owner.get(f"/invoices/{invoice_id}")["invoice"]["invoice_number"]
    payment = studio.owner.post(f"/invoices/{invoice_id}/payments", json={"amount": 1.5})["payment"]
    studio.owner.post(f"/payments/{payment['id']}/refund", json={"amount": 0.5})
    studio.owner.post(f"/invoices/{invoice_id}/credit_notes", json={"reason": "Late"})
    for person in (second, studio.client):
        found = inbox(person)
        assert [(each["kind"], each["action"], each["amount"]) for each in found] == [
            ("invoice", "credited", None),
            ("payment", "refund", -0.5),
            ("payment", "payment", 1.5),
            ("invoice", "sent", None),
        ]
        assert {each["subject"]["title"] for each in found} == {number}
        assert found[1]["currency"] == "USD"
        assert found[0]["html_url"].endswith(f"/{studio.world.full_name}/billing/{invoice_id}")
    assert inbox(studio.owner) == []
    assert inbox(studio.member) == []


def test_a_draft_tells_nothing_and_a_void_invoice_does(studio: Studio, scene: Scene) -> None:
    assert studio.client.login
    draft = scene.invoice()
    studio.owner.patch(f"/invoices/{draft}", json={"bill_to": "Else"})
    assert inbox(studio.client) == []
    scene.invoice("send", "void")
    assert [each["action"] for each in inbox(studio.client)] == ["voided", "sent"]


def test_an_invoice_that_workhook_issues_tells_every_owner(studio: Studio, scene: Scene) -> None:
    assert studio.client.login
    checkout_id = scene.checkout("complete")
    assert told(studio.owner) == []  # completing it was the owner's own act
    assert [each["action"] for each in inbox(studio.client)] == ["sent"]
    run_chore(studio, "service_checkout_periods", now_ms() + 32 * DAY_MS)
    assert [(each["kind"], each["actor"]) for each in inbox(studio.owner)] == [("invoice", None)]
    assert len(inbox(studio.client)) == 2
    studio.owner.delete(f"/service_checkouts/{checkout_id}")


# --- invitations ------------------------------------------------------------------------------------------------------


def test_an_invitation_tells_until_it_is_answered(studio: Studio) -> None:
    person = studio.add()
    at = studio.world.org_path
    studio.owner.http.put(f"{at}/memberships/{person.login}", json={"role": "member"}).raise_for_status()
    [only] = inbox(person)
    assert (only["kind"], only["action"], only["project"]) == ("invitation", "member", None)
    assert only["subject"]["title"] == studio.world.organization
    studio.owner.http.put(f"{at}/memberships/{person.login}", json={"role": "admin"}).raise_for_status()
    assert [each["action"] for each in inbox(person)] == ["owner"]  # renewed, not told of twice
    person.http.patch(f"/user{at.replace('/orgs', '/memberships/orgs')}", json={"state": "active"}).raise_for_status()
    assert inbox(person) == []


def test_an_invitation_to_a_project_that_is_taken_back_tells_no_more(studio: Studio) -> None:
    person = studio.add()
    path = f"{studio.world.repo_path}/collaborators/{person.login}"
    studio.owner.http.put(path, json={"permission": "pull"}).raise_for_status()
    [only] = inbox(person)
    assert only["subject"]["title"] == studio.world.full_name
    assert only["action"] == "read"
    [invitation] = studio.owner.http.get(f"{studio.world.repo_path}/invitations").json()
    studio.owner.http.delete(f"{studio.world.repo_path}/invitations/{invitation['id']}").raise_for_status()
    assert inbox(person) == []


def test_who_has_the_address_is_told_of_an_invitation_by_email(studio: Studio) -> None:
    person = studio.add()
    address = person.me["email"]
    studio.owner.http.post(f"{studio.world.org_path}/invitations", json={"email": address.upper()}).raise_for_status()
    assert [each["kind"] for each in inbox(person)] == ["invitation"]


# --- webhooks ---------------------------------------------------------------------------------------------------------


def test_who_looks_after_a_webhook_is_told_that_it_is_off(studio: Studio) -> None:
    admin, world = studio.add(role="admin"), studio.world
    hook = {"name": "web", "config": {"url": "http://127.0.0.1:9/"}, "events": ["*"]}
    hook_id = studio.owner.http.post(f"{world.repo_path}/hooks", json=hook).json()["id"]

    async def turn_off(services: Services) -> bool:
        repository = await find_repository(services.database, world.organization, world.repository, 0)
        assert repository is not None
        found = await find_hook(services.database, HookOwner(repository.owner, repository), hook_id)
        assert found is not None
        return await deactivate_failing(services, found, "The receiver answered 410 Gone.")

    assert studio.server.run(turn_off) is True
    for person in (studio.owner, admin):
        [only] = inbox(person)
        assert (only["kind"], only["actor"], only["text"]) == ("hook_disabled", None, "The receiver answered 410 Gone.")
        assert only["subject"] == {"type": "webhook", "id": str(hook_id), "title": str(hook_id)}
        assert only["html_url"].endswith(f"/{world.full_name}/webhooks/{hook_id}")
    assert inbox(studio.member) == []
    studio.owner.http.put(f"{world.repo_path}/collaborators/{admin.login}", json={"permission": "push"})
    assert inbox(admin) == []  # no longer an admin


# --- seeing, reading, choosing ----------------------------------------------------------------------------------------


def test_who_loses_the_project_no_longer_sees_what_tells_of_it(studio: Studio) -> None:
    add_to_private(studio, studio.member)
    task_id = studio.task(assignees=[studio.member.login])
    [only] = inbox(studio.member)
    studio.owner.delete(f"{studio.project}/members/{studio.member.login}")
    assert inbox(studio.member) == []
    studio.member.refused(404, "POST", f"/me/notifications/{only['id']}/read")
    studio.owner.post(f"{studio.project}/members", json={"username": studio.member.login})
    assert [each["subject"]["id"] for each in inbox(studio.member)] == [task_id]
    studio.owner.delete(studio.project)
    assert inbox(studio.member) == []


def test_reading_one_and_all(studio: Studio) -> None:
    for title in ("One", "Two", "Three"):
        studio.task(title=title, assignees=[studio.member.login])
    newest, *_ = inbox(studio.member)
    studio.member.post(f"/me/notifications/{newest['id']}/read")
    assert [each["unread"] for each in inbox(studio.member)] == [False, True, True]
    read_at = inbox(studio.member)[0]["read_at"]
    studio.member.post(f"/me/notifications/{newest['id']}/read")
    assert inbox(studio.member)[0]["read_at"] == read_at  # the first time counts
    assert [each["subject"]["title"] for each in inbox(studio.member, unread="true")] == ["Two", "One"]
    assert [each["subject"]["title"] for each in inbox(studio.member, unread="false")] == ["Three"]
    oldest = inbox(studio.member)[-1]["id"]
    studio.member.post("/me/notifications/read", json={"upto": oldest})
    assert [each["subject"]["title"] for each in inbox(studio.member, unread="true")] == ["Two"]
    studio.member.post("/me/notifications/read")
    assert inbox(studio.member, unread="true") == []
    studio.stranger.refused(404, "POST", f"/me/notifications/{newest['id']}/read")


def test_pages_of_an_inbox(studio: Studio) -> None:
    for number in range(5):
        studio.task(title=str(number), assignees=[studio.member.login])
    found, path = [], "/me/notifications?per_page=2"
    while path:
        response = studio.member.call("GET", path)
        found += [each["subject"]["title"] for each in response.json()["notifications"]]
        path = response.links.get("next", {}).get("url", "").partition("/api/v1")[2]
    assert found == ["4", "3", "2", "1", "0"]


def test_a_kind_that_is_not_wanted_is_not_told_of(studio: Studio) -> None:
    chosen = studio.member.get("/me/notification_settings")["notification_settings"]
    assert set(chosen) == {
        "mention", "assignment", "deadline", "invoice", "payment", "invitation", "hook_disabled",
    }  # fmt: skip
    assert all(each == {"inbox": True, "email": True} for each in chosen.values())
    answered = studio.member.patch("/me/notification_settings", json={"assignment": {"inbox": False}})
    assert answered["notification_settings"] == {**chosen, "assignment": {"inbox": False, "email": True}}
    assert studio.member.get("/me/notification_settings") == answered
    task_id = studio.task(assignees=[studio.member.login])
    assert inbox(studio.member) == []
    studio.owner.post(f"/tasks/{task_id}/task_comments", json={"text": f"@{studio.member.login}"})
    assert len(inbox(studio.member)) == 1
    studio.member.patch("/me/notification_settings", json={"assignment": {"inbox": True}})
    studio.task(assignees=[studio.member.login])
    assert len(inbox(studio.member)) == 2
    fault = studio.member.faults("PATCH", "/me/notification_settings", json={"mention": {"inbox": "often"}})
    assert list(fault) == ["mention.inbox"]


def test_a_token_that_is_confined_has_no_inbox(studio: Studio) -> None:
    async def make(services: Services) -> str:
        place = await find_account(services.database, studio.world.organization)
        owner = await find_account(services.database, studio.owner.login)
        assert place is not None and owner is not None  # noqa: PT018
        async with services.database.transaction() as tx:
            issued = await issue(tx, FINE_GRAINED, owner.id, permissions={"work": "write"}, account_id=place.id)
        return issued.token

    confined = Caller(studio.server, studio.server.run(make))
    assert confined.get("/me")["user"]["login"] == studio.owner.login
    confined.refused(403, "GET", "/me/notifications")
    confined.refused(403, "PATCH", "/me/notification_settings", json={"mention": {"inbox": False}})
    confined.http.close()


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_an_inbox_keeps_the_newest_and_what_is_not_old(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        studio.task(title=str(number), assignees=[studio.member.login])
    oldest = inbox(studio.member)[-1]["id"]

    async def age(services: Services) -> None:
        at = now_ms() - pruning.KEPT_MS - MINUTE_MS
        async with services.database.transaction() as tx:
            await tx.execute(_date_back, {"id": oldest, "at": at})

    studio.server.run(age)
    run_chore(studio, "notifications")
    assert [title for _, title in told(studio.member)] == ["3", "2", "1"]
    monkeypatch.setattr(pruning, "KEPT_MAX", 2)
    run_chore(studio, "notifications")
    assert [title for _, title in told(studio.member)] == ["3", "2"]
