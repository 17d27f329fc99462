"""Notifications and mentions: who receives them, and who can still see them later."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness.waiting import until
from tests.harness.world import must
from tests.work.scene import Scene
from tests.work.studio import Caller, Studio
from workhook.chores import CHORES, run_once
from workhook.core.clock import DAY_MS, HOUR_MS, MINUTE_MS, now_ms, to_millis_text
from workhook.hooks.actions import deactivate_failing
from workhook.hooks.queries import find_hook
from workhook.hooks.schemas import HookOwner
from workhook.http.calls import Services
from workhook.identity.queries import find_account, find_repository
from workhook.identity.tables import accounts, notifications
from workhook.identity.tokens.issue import FINE_GRAINED, issue
from workhook.storage.metadata import bigint_param
from workhook.work.discussion.mentions import Mention, list_mentions
from workhook.work.discussion.schemas import mentions
from workhook.work.history import notifications as chores

_date_back = (
    sa.update(notifications).where(notifications.c.id == bigint_param("id")).values(created_at=bigint_param("at"))
)


def inbox(person: Caller, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = person.get("/me/notifications", params=query)["notifications"]
    return found


def kinds_and_titles(person: Caller) -> list[tuple[str, str]]:
    """Return the kind and the subject's title of each notification, newest first."""
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


def test_a_mentioned_person_is_notified(studio: Studio) -> None:
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
    assert inbox(studio.owner) == []  # no notification about one's own actions
    assert inbox(studio.stranger) == []


def test_mentions_in_replies_and_file_comments_notify(studio: Studio) -> None:
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
    assert inbox(studio.member) == []  # deleted together with its subject
    assert mentioned_logins(studio, studio.owner) == []


# --- assignments ------------------------------------------------------------------------------------------------------


def test_an_assignee_is_notified_unless_they_assigned_themselves(studio: Studio) -> None:
    people = [studio.member.login, studio.owner.login]
    task_id = studio.task(title="Logo", assignees=people)
    assert kinds_and_titles(studio.member) == [("assignment", "Logo")]
    assert inbox(studio.owner) == []
    studio.member.patch(f"/tasks/{task_id}", json={"assignees": [studio.member.login]})
    studio.member.patch(f"/tasks/{task_id}", json={"assignees": people})
    assert kinds_and_titles(studio.owner) == [("assignment", "Logo")]
    assert kinds_and_titles(studio.member) == [("assignment", "Logo")]  # was assigned already


def test_a_bulk_request_notifies_each_assignee_of_each_task(studio: Studio) -> None:
    column_id, kept = studio.column(), studio.task(title="Kept", assignees=[studio.member.login])
    operations: list[dict[str, Any]] = [
        {"action": "create", "column_id": column_id, "title": each, "assignees": [studio.member.login]}
        for each in ("One", "Two")
    ]
    operations.append({"action": "edit", "id": kept, "assignees": [studio.member.login, studio.client.login]})
    studio.owner.post("/tasks/bulk", json={"operations": operations})
    assert sorted(kinds_and_titles(studio.member)) == [
        ("assignment", "Kept"),
        ("assignment", "One"),
        ("assignment", "Two"),
    ]
    assert kinds_and_titles(studio.client) == [("assignment", "Kept")]
    assert {each["project"]["id"] for each in inbox(studio.member)} == {studio.project_id}


# --- deadlines --------------------------------------------------------------------------------------------------------


def test_a_deadline_within_a_day_is_notified_once(studio: Studio) -> None:
    soon, later = (to_millis_text(now_ms() + each) for each in (2 * HOUR_MS, 2 * DAY_MS))
    mine = [studio.owner.login]
    task_id = studio.task(title="Soon", deadline=soon, assignees=mine)
    studio.task(title="Later", deadline=later, assignees=mine)
    studio.task(title="Nobody's", deadline=soon)
    studio.task(title="Overdue", deadline=to_millis_text(now_ms() - HOUR_MS), assignees=mine)
    run_chore(studio, "deadlines")
    until(lambda: kinds_and_titles(studio.owner) == [("deadline", "Soon")])  # the server's own chore may run as well
    assert inbox(studio.owner)[0]["deadline"] == soon
    assert inbox(studio.owner)[0]["actor"] is None
    run_chore(studio, "deadlines")
    assert len(inbox(studio.owner)) == 1
    studio.owner.patch(f"/tasks/{task_id}", json={"deadline": to_millis_text(now_ms() + 3 * HOUR_MS)})
    run_chore(studio, "deadlines")
    until(lambda: kinds_and_titles(studio.owner) == [("deadline", "Soon")] * 2)
    run_chore(studio, "deadlines", now_ms() + DAY_MS + HOUR_MS)
    until(lambda: kinds_and_titles(studio.owner)[0] == ("deadline", "Later"))


def test_deadlines_in_archived_projects_and_of_former_members_are_not_notified(studio: Studio) -> None:
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
    assert kinds_and_titles(member) == [("assignment", "Left")]  # from the time before they left
    studio.task(title="Archived", deadline=soon, assignees=[studio.owner.login])
    studio.owner.patch(studio.project, json={"archive": True})
    run_chore(studio, "deadlines")
    assert inbox(studio.owner) == []


# --- money ------------------------------------------------------------------------------------------------------------


def test_owners_and_clients_are_notified_of_invoices_and_payments(studio: Studio, scene: Scene) -> None:
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


def test_drafts_do_not_notify_but_voided_invoices_do(studio: Studio, scene: Scene) -> None:
    assert studio.client.login
    draft = scene.invoice()
    studio.owner.patch(f"/invoices/{draft}", json={"bill_to": "Else"})
    assert inbox(studio.client) == []
    scene.invoice("send", "void")
    assert [each["action"] for each in inbox(studio.client)] == ["voided", "sent"]


def test_every_owner_is_notified_of_an_automatically_issued_invoice(studio: Studio, scene: Scene) -> None:
    assert studio.client.login
    checkout_id = scene.checkout("complete")
    assert kinds_and_titles(studio.owner) == []  # the owner completed it themselves
    assert [each["action"] for each in inbox(studio.client)] == ["sent"]
    run_chore(studio, "service_checkout_periods", now_ms() + 32 * DAY_MS)
    assert [(each["kind"], each["actor"]) for each in inbox(studio.owner)] == [("invoice", None)]
    assert len(inbox(studio.client)) == 2
    studio.owner.delete(f"/service_checkouts/{checkout_id}")


# --- invitations ------------------------------------------------------------------------------------------------------


def test_an_invitation_is_shown_until_it_is_answered(studio: Studio) -> None:
    person = studio.add()
    at = studio.world.org_path
    studio.owner.http.put(f"{at}/memberships/{person.login}", json={"role": "member"}).raise_for_status()
    [only] = inbox(person)
    assert (only["kind"], only["action"], only["project"]) == ("invitation", "member", None)
    assert only["subject"]["title"] == studio.world.organization
    studio.owner.http.put(f"{at}/memberships/{person.login}", json={"role": "admin"}).raise_for_status()
    assert [each["action"] for each in inbox(person)] == ["owner"]  # updated rather than repeated
    person.http.patch(f"/user{at.replace('/orgs', '/memberships/orgs')}", json={"state": "active"}).raise_for_status()
    assert inbox(person) == []


def test_a_withdrawn_project_invitation_is_no_longer_shown(studio: Studio) -> None:
    person = studio.add()
    path = f"{studio.world.repo_path}/collaborators/{person.login}"
    studio.owner.http.put(path, json={"permission": "pull"}).raise_for_status()
    [only] = inbox(person)
    assert only["subject"]["title"] == studio.world.full_name
    assert only["action"] == "read"
    [invitation] = studio.owner.http.get(f"{studio.world.repo_path}/invitations").json()
    studio.owner.http.delete(f"{studio.world.repo_path}/invitations/{invitation['id']}").raise_for_status()
    assert inbox(person) == []


def test_an_invitation_by_e_mail_notifies_the_user_with_that_address(studio: Studio) -> None:
    person = studio.add()
    address = person.me["email"]
    studio.owner.http.post(f"{studio.world.org_path}/invitations", json={"email": address.upper()}).raise_for_status()
    assert [each["kind"] for each in inbox(person)] == ["invitation"]


# --- webhooks ---------------------------------------------------------------------------------------------------------


def test_the_admins_of_a_webhook_are_notified_when_it_is_disabled(studio: Studio) -> None:
    admin, world = studio.add(role="admin"), studio.world
    hook = {"name": "web", "config": {"url": "http://127.0.0.1:9/"}, "events": ["*"]}
    hook_id = studio.owner.http.post(f"{world.repo_path}/hooks", json=hook).json()["id"]

    async def turn_off(services: Services) -> bool:
        repository = must(await find_repository(services.database, world.organization, world.repository, 0))
        found = must(await find_hook(services.database, HookOwner(repository.owner, repository), hook_id))
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


# --- visibility, reading, settings ------------------------------------------------------------------------------------


def test_notifications_of_a_lost_project_are_hidden(studio: Studio) -> None:
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


def test_one_or_all_notifications_can_be_marked_as_read(studio: Studio) -> None:
    for title in ("One", "Two", "Three"):
        studio.task(title=title, assignees=[studio.member.login])
    newest, *_ = inbox(studio.member)
    studio.member.post(f"/me/notifications/{newest['id']}/read")
    assert [each["unread"] for each in inbox(studio.member)] == [False, True, True]
    read_at = inbox(studio.member)[0]["read_at"]
    studio.member.post(f"/me/notifications/{newest['id']}/read")
    assert inbox(studio.member)[0]["read_at"] == read_at  # the first time is kept
    assert [each["subject"]["title"] for each in inbox(studio.member, unread="true")] == ["Two", "One"]
    assert [each["subject"]["title"] for each in inbox(studio.member, unread="false")] == ["Three"]
    oldest = inbox(studio.member)[-1]["id"]
    studio.member.post("/me/notifications/read", json={"upto": oldest})
    assert [each["subject"]["title"] for each in inbox(studio.member, unread="true")] == ["Two"]
    studio.member.post("/me/notifications/read")
    assert inbox(studio.member, unread="true") == []
    studio.stranger.refused(404, "POST", f"/me/notifications/{newest['id']}/read")


def test_a_disabled_kind_is_not_notified(studio: Studio) -> None:
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


def test_a_confined_token_has_no_inbox(studio: Studio) -> None:
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


# --- limits -----------------------------------------------------------------------------------------------------------


def test_an_inbox_keeps_only_the_newest_and_recent_notifications(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        studio.task(title=str(number), assignees=[studio.member.login])
    oldest = inbox(studio.member)[-1]["id"]

    at = now_ms() - chores.KEPT_MS - MINUTE_MS
    studio.server.execute(_date_back, {"id": oldest, "at": at})
    run_chore(studio, "notifications")
    assert [title for _, title in kinds_and_titles(studio.member)] == ["3", "2", "1"]
    monkeypatch.setattr(chores, "KEPT_MAX", 2)
    run_chore(studio, "notifications")
    assert [title for _, title in kinds_and_titles(studio.member)] == ["3", "2"]


# --- mentions --------------------------------------------------------------------------------------------------------
# Mentions in comments and replies: which are stored, how edits change them, and who can still see them.


_stored = (
    sa.select(accounts.c.login)
    .join_from(mentions, accounts, accounts.c.id == mentions.c.user_id)
    .where(mentions.c.author_id == bigint_param("author_id"))
    .order_by(mentions.c.id)
)


@pytest.fixture
def task(studio: Studio) -> str:
    return f"/tasks/{studio.task(title='Landing page')}"


@pytest.fixture
def file(studio: Studio) -> str:
    return f"/files/{studio.file()}"


def visible_mentions(studio: Studio, person: Caller, limit: int = 20) -> list[Mention]:
    """Return the mentions shown on the person's page, newest first."""

    async def read(services: Services) -> list[Mention]:
        user = must(await find_account(services.database, person.login))
        return await list_mentions(services.database, user, limit)

    found: list[Mention] = studio.server.run(read)
    return found


def words(studio: Studio, person: Caller) -> list[str]:
    return [each.words for each in visible_mentions(studio, person)]


def mentioned_logins(studio: Studio, author: Caller) -> list[str]:
    """Return the logins the author has mentioned, regardless of visibility."""

    async def read(services: Services) -> list[str]:
        user = must(await find_account(services.database, author.login))
        return [row["login"] for row in await services.database.fetch_all(_stored, {"author_id": user.id})]

    found: list[str] = studio.server.run(read)
    return found


def comment(caller: Caller, task: str, text: str, **more: Any) -> str:
    return f"/task_comments/{caller.post(f'{task}/task_comments', json={'text': text, **more})['task_comment']['id']}"


def comment_on_file(caller: Caller, file: str, text: str, **more: Any) -> str:
    return f"/file_comments/{caller.post(f'{file}/file_comments', json={'text': text, **more})['id']}"


def reply(caller: Caller, comment: str, body: str, **more: Any) -> str:
    return f"{comment}/comments/{caller.post(f'{comment}/comments', json={'body': body, **more})['comment']['id']}"


def test_a_mention_has_author_subject_and_time(studio: Studio, task: str, file: str) -> None:
    name = studio.member.login
    made = studio.owner.post(f"{task}/task_comments", json={"text": f"**Please** look, @{name.upper()}!"})
    about = comment_on_file(studio.client, file, f"And here: `code` @{name}")
    answered = reply(studio.owner, about, f"<p>Yes, <b>@{name}</b></p>")
    answer, on_file, on_task = visible_mentions(studio, studio.member)
    assert (on_task.kind, on_task.comment_id) == ("task_comment", made["task_comment"]["id"])
    assert (on_task.about_id, on_task.title) == (task.removeprefix("/tasks/"), "Landing page")
    assert on_task.words == f"Please look, @{name.upper()}!"
    assert (on_task.author.login, on_task.repository.full_name) == (studio.world.owner, studio.world.full_name)
    assert (on_file.kind, str(on_file.comment_id)) == ("file_comment", about.rpartition("/")[2])
    assert (on_file.about_id, on_file.title) == (file.removeprefix("/files/"), "plan.txt")
    assert (on_file.words, on_file.author.login) == (f"And here: code @{name}", studio.client.login)
    assert (answer.kind, str(answer.comment_id)) == ("file_comment_reply", answered.rpartition("/")[2])
    assert (answer.about_id, answer.words) == (on_file.about_id, f"Yes, @{name}")
    assert [each.id for each in visible_mentions(studio, studio.member, limit=2)] == [answer.id, on_file.id]
    assert on_task.created_at <= on_file.created_at <= answer.created_at


def test_code_oneself_and_outsiders_are_not_mentioned(studio: Studio, task: str) -> None:
    names = (studio.stranger.login, studio.world.organization, studio.owner.login, "nobody-is-called-so")
    comment(studio.owner, task, " ".join(f"@{each}" for each in names))
    comment(studio.owner, task, f"`@{studio.member.login}` {studio.member.login}@example.com @{studio.member.login}.x")
    assert mentioned_logins(studio, studio.owner) == [studio.member.login]  # from the login followed by a full stop
    assert visible_mentions(studio, studio.stranger) == []


def test_mentions_are_limited_to_people_of_the_organization(studio: Studio, elsewhere: Studio, task: str) -> None:
    there = f"/tasks/{elsewhere.task()}"
    worker = elsewhere.member
    text = f"@{studio.member.login} @{worker.login} @{elsewhere.world.owner} @{studio.world.owner}"
    comment(studio.owner, task, text)
    comment(elsewhere.owner, there, text)
    assert mentioned_logins(studio, studio.owner) == [studio.member.login]
    assert mentioned_logins(elsewhere, elsewhere.owner) == [worker.login]
    # A member of one and client of the other is mentioned in each according to their role there.
    both = studio.add(role="write")
    elsewhere.new_client(f"{both.login}@example.com")
    comment(studio.owner, task, f"here @{both.login}", private=True)
    comment(elsewhere.owner, there, f"there @{both.login}", private=True)
    comment(elsewhere.owner, there, f"seen there @{both.login}")
    assert words(studio, both) == [f"seen there @{both.login}", f"here @{both.login}"]
    assert [each.repository.full_name for each in visible_mentions(studio, both)] == [
        elsewhere.world.full_name, studio.world.full_name,
    ]  # fmt: skip


def test_a_comment_hidden_from_clients_mentions_no_client(studio: Studio, task: str, file: str) -> None:
    both = f"@{studio.client.login} @{studio.member.login}"
    private = comment(studio.owner, task, both, private=True)
    hidden = comment_on_file(studio.owner, file, both, private=True)
    reply(studio.owner, hidden, both)
    reply(studio.owner, comment_on_file(studio.owner, file, "Said"), both, private=True)
    secret = f"/files/{studio.file(private='true')}"
    reply(studio.owner, comment_on_file(studio.owner, secret, both), both)
    assert set(mentioned_logins(studio, studio.owner)) == {studio.member.login}
    assert (len(visible_mentions(studio, studio.member)), visible_mentions(studio, studio.client)) == (6, [])
    assert (len(inbox(studio.member)), inbox(studio.client)) == (6, [])
    studio.owner.patch(private, json={"private": False})
    assert words(studio, studio.client) == [both]
    assert len(inbox(studio.client)) == 1
    studio.owner.patch(private, json={"private": True})
    assert studio.client.login not in mentioned_logins(studio, studio.owner)
    assert inbox(studio.client) == []
    assert len(visible_mentions(studio, studio.member)) == len(inbox(studio.member)) == 6


def test_a_mention_hidden_later_disappears_for_clients(studio: Studio, file: str) -> None:
    both = f"@{studio.client.login} @{studio.member.login}"
    about = comment_on_file(studio.owner, file, both)
    answered = reply(studio.owner, about, both)
    assert len(visible_mentions(studio, studio.client)) == 2
    studio.owner.patch(about, json={"private": True})
    assert visible_mentions(studio, studio.client) == []  # the reply belongs to the hidden comment
    studio.owner.patch(about, json={"private": False})
    assert len(visible_mentions(studio, studio.client)) == 2
    studio.owner.patch(file, json={"private": True})
    assert visible_mentions(studio, studio.client) == []
    studio.owner.patch(answered, json={"body": f"Now {both}"})
    assert len(visible_mentions(studio, studio.member)) == 2


@pytest.mark.parametrize("kind", ["task_comment", "file_comment", "file_comment_reply"])
def test_an_edit_adds_and_removes_mentions(studio: Studio, task: str, file: str, kind: str) -> None:
    one, two = studio.member, studio.client
    first = f"@{one.login} look"
    if kind == "task_comment":
        path = comment(studio.owner, task, first)
    elif kind == "file_comment":
        path = comment_on_file(studio.owner, file, first)
    else:
        path = reply(studio.owner, comment_on_file(studio.owner, file, "Said"), first)
    field = "body" if kind == "file_comment_reply" else "text"
    [before] = visible_mentions(studio, one)
    studio.owner.patch(path, json={field: f"@{one.login} and @{two.login} look"})
    assert [each.id for each in visible_mentions(studio, one)] == [before.id]  # still the same mention
    assert len(inbox(one)) == len(inbox(two)) == 1
    assert words(studio, two) == [f"@{one.login} and @{two.login} look"]
    studio.owner.patch(path, json={field: f"@{two.login} looks"})
    assert (visible_mentions(studio, one), words(studio, two)) == ([], [f"@{two.login} looks"])
    studio.owner.patch(path, json={field: f"@{one.login} looks"})
    assert (words(studio, one), visible_mentions(studio, two)) == ([f"@{one.login} looks"], [])
    studio.owner.patch(path, json={field: "no one looks"})
    assert mentioned_logins(studio, studio.owner) == []
    # Authors cannot mention themselves.
    studio.owner.patch(path, json={field: f"@{studio.owner.login} @{one.login}"})
    assert (len(visible_mentions(studio, studio.owner)), len(visible_mentions(studio, one))) == (0, 1)
    studio.owner.delete(path)
    assert (visible_mentions(studio, studio.owner), visible_mentions(studio, one)) == ([], [])
    assert mentioned_logins(studio, studio.owner) == []


def test_a_comment_deleted_by_a_client_mentions_no_one_even_if_replies_remain(studio: Studio, file: str) -> None:
    path = comment_on_file(studio.client, file, f"@{studio.member.login} look")
    reply(studio.owner, path, f"@{studio.member.login} looks")
    studio.client.delete(path)
    assert mentioned_logins(studio, studio.client) == []
    assert words(studio, studio.member) == [f"@{studio.member.login} looks"]


def test_mentions_in_the_trash_are_hidden(studio: Studio, task: str, file: str) -> None:
    text = f"@{studio.member.login} look"
    comment(studio.owner, task, text)
    comment_on_file(studio.owner, file, text)
    for path in (task, file, studio.project):
        studio.owner.delete(path)
        left = 0 if path == studio.project else 1
        assert len(visible_mentions(studio, studio.member)) == len(inbox(studio.member)) == left, path
        studio.owner.post(f"{path}/restore")
        assert len(visible_mentions(studio, studio.member)) == len(inbox(studio.member)) == 2


def test_mentions_follow_the_current_role_of_a_person(studio: Studio, task: str) -> None:
    person = studio.add(role="write")
    comment(studio.owner, task, f"open @{person.login}")
    comment(studio.owner, task, f"private @{person.login}", private=True)
    assert words(studio, person) == [f"private @{person.login}", f"open @{person.login}"]
    studio.owner.delete(f"{studio.project}/members/{person.login}")
    assert visible_mentions(studio, person) == []
    studio.new_client(f"{person.login}@example.com")
    assert words(studio, person) == [f"open @{person.login}"]


def test_mentions_in_a_private_project_are_hidden_from_other_members(studio: Studio, task: str) -> None:
    comment(studio.owner, task, f"look @{studio.member.login} @{studio.client.login}")
    studio.owner.patch(studio.project, json={"private": True})
    assert (visible_mentions(studio, studio.member), len(visible_mentions(studio, studio.client))) == ([], 1)
    comment(studio.owner, task, f"again @{studio.member.login}")
    assert mentioned_logins(studio, studio.owner).count(studio.member.login) == 1
