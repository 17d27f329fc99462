"""Whom comments and replies name: who is stored, what an edit changes, and who still sees a mention."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.work.counted import CountedServer
from tests.work.studio import Caller, Studio
from workhook.http.calls import Services
from workhook.identity.queries import find_account
from workhook.identity.tables import accounts
from workhook.storage.metadata import big
from workhook.work.discussion.mentions import Mention, list_mentions
from workhook.work.discussion.schemas import mentions

_stored = (
    sa.select(accounts.c.login)
    .join_from(mentions, accounts, accounts.c.id == mentions.c.user_id)
    .where(mentions.c.author_id == big("author_id"))
    .order_by(mentions.c.id)
)


@pytest.fixture
def task(studio: Studio) -> str:
    return f"/tasks/{studio.task(title='Landing page')}"


@pytest.fixture
def file(studio: Studio) -> str:
    return f"/files/{studio.file()}"


def seen(studio: Studio, person: Caller, limit: int = 20) -> list[Mention]:
    """What the page of the person shows, the newest first."""

    async def read(services: Services) -> list[Mention]:
        user = await find_account(services.database, person.login)
        assert user is not None
        return await list_mentions(services.database, user, limit)

    found: list[Mention] = studio.server.run(read)
    return found


def words(studio: Studio, person: Caller) -> list[str]:
    return [each.words for each in seen(studio, person)]


def stored(studio: Studio, author: Caller) -> list[str]:
    """The logins that the author has mentioned, whoever sees it."""

    async def read(services: Services) -> list[str]:
        user = await find_account(services.database, author.login)
        assert user is not None
        return [row["login"] for row in await services.database.fetch_all(_stored, {"author_id": user.id})]

    found: list[str] = studio.server.run(read)
    return found


def comment(caller: Caller, task: str, text: str, **more: Any) -> str:
    return f"/task_comments/{caller.post(f'{task}/task_comments', json={'text': text, **more})['task_comment']['id']}"


def comment_on_file(caller: Caller, file: str, text: str, **more: Any) -> str:
    return f"/file_comments/{caller.post(f'{file}/file_comments', json={'text': text, **more})['id']}"


def reply(caller: Caller, comment: str, body: str, **more: Any) -> str:
    return f"{comment}/comments/{caller.post(f'{comment}/comments', json={'body': body, **more})['comment']['id']}"


def test_a_mention_says_who_where_and_when(studio: Studio, task: str, file: str) -> None:
    name = studio.member.login
    made = studio.owner.post(f"{task}/task_comments", json={"text": f"**Please** look, @{name.upper()}!"})
    about = comment_on_file(studio.client, file, f"And here: `code` @{name}")
    answered = reply(studio.owner, about, f"<p>Yes, <b>@{name}</b></p>")
    answer, on_file, on_task = seen(studio, studio.member)
    assert (on_task.kind, on_task.comment_id) == ("task_comment", made["task_comment"]["id"])
    assert (on_task.about_id, on_task.title) == (task.removeprefix("/tasks/"), "Landing page")
    assert on_task.words == f"Please look, @{name.upper()}!"
    assert (on_task.author.login, on_task.repository.full_name) == (studio.world.owner, studio.world.full_name)
    assert (on_file.kind, str(on_file.comment_id)) == ("file_comment", about.rpartition("/")[2])
    assert (on_file.about_id, on_file.title) == (file.removeprefix("/files/"), "plan.txt")
    assert (on_file.words, on_file.author.login) == (f"And here: code @{name}", studio.client.login)
    assert (answer.kind, str(answer.comment_id)) == ("file_comment_reply", answered.rpartition("/")[2])
    assert (answer.about_id, answer.words) == (on_file.about_id, f"Yes, @{name}")
    assert [each.id for each in seen(studio, studio.member, limit=2)] == [answer.id, on_file.id]
    assert on_task.created_at <= on_file.created_at <= answer.created_at


def test_nobody_is_named_by_code_by_themselves_or_from_elsewhere(studio: Studio, task: str) -> None:
    names = (studio.stranger.login, studio.world.organization, studio.owner.login, "nobody-is-called-so")
    comment(studio.owner, task, " ".join(f"@{each}" for each in names))
    comment(studio.owner, task, f"`@{studio.member.login}` {studio.member.login}@example.com @{studio.member.login}.x")
    assert stored(studio, studio.owner) == [studio.member.login]  # by the sentence that ends with a point
    assert seen(studio, studio.stranger) == []


def test_two_organizations_whose_people_overlap(studio: Studio, task: str) -> None:
    other = Studio(studio.server, studio.server.world())
    try:
        there = f"/tasks/{other.task()}"
        elsewhere = other.member
        text = f"@{studio.member.login} @{elsewhere.login} @{other.world.owner} @{studio.world.owner}"
        comment(studio.owner, task, text)
        comment(other.owner, there, text)
        assert stored(studio, studio.owner) == [studio.member.login]
        assert stored(other, other.owner) == [elsewhere.login]
        # Who works in the one and is a client of the other is mentioned in each as what they are there.
        both = studio.add(role="write")
        other.new_client(f"{both.login}@example.com")
        comment(studio.owner, task, f"here @{both.login}", private=True)
        comment(other.owner, there, f"there @{both.login}", private=True)
        comment(other.owner, there, f"seen there @{both.login}")
        assert words(studio, both) == [f"seen there @{both.login}", f"here @{both.login}"]
        assert [each.repository.full_name for each in seen(studio, both)] == [
            other.world.full_name, studio.world.full_name,
        ]  # fmt: skip
    finally:
        other.close()


def test_a_comment_that_is_hidden_from_clients_names_no_client(studio: Studio, task: str, file: str) -> None:
    both = f"@{studio.client.login} @{studio.member.login}"
    private = comment(studio.owner, task, both, private=True)
    hidden = comment_on_file(studio.owner, file, both, private=True)
    reply(studio.owner, hidden, both)
    reply(studio.owner, comment_on_file(studio.owner, file, "Said"), both, private=True)
    secret = f"/files/{studio.file(private='true')}"
    reply(studio.owner, comment_on_file(studio.owner, secret, both), both)
    assert set(stored(studio, studio.owner)) == {studio.member.login}
    assert (len(seen(studio, studio.member)), seen(studio, studio.client)) == (6, [])
    studio.owner.patch(private, json={"private": False})
    assert words(studio, studio.client) == [both]
    studio.owner.patch(private, json={"private": True})
    assert studio.client.login not in stored(studio, studio.owner)
    assert len(seen(studio, studio.member)) == 6


def test_what_is_hidden_later_is_not_seen_by_clients_any_more(studio: Studio, file: str) -> None:
    both = f"@{studio.client.login} @{studio.member.login}"
    about = comment_on_file(studio.owner, file, both)
    answered = reply(studio.owner, about, both)
    assert len(seen(studio, studio.client)) == 2
    studio.owner.patch(about, json={"private": True})
    assert seen(studio, studio.client) == []  # the reply is below it
    studio.owner.patch(about, json={"private": False})
    assert len(seen(studio, studio.client)) == 2
    studio.owner.patch(file, json={"private": True})
    assert seen(studio, studio.client) == []
    studio.owner.patch(answered, json={"body": f"Now {both}"})
    assert len(seen(studio, studio.member)) == 2


@pytest.mark.parametrize("kind", ["task_comment", "file_comment", "file_comment_reply"])
def test_an_edit_adds_who_is_new_and_takes_away_who_is_gone(studio: Studio, task: str, file: str, kind: str) -> None:
    one, two = studio.member, studio.client
    first = f"@{one.login} look"
    if kind == "task_comment":
        path = comment(studio.owner, task, first)
    elif kind == "file_comment":
        path = comment_on_file(studio.owner, file, first)
    else:
        path = reply(studio.owner, comment_on_file(studio.owner, file, "Said"), first)
    field = "body" if kind == "file_comment_reply" else "text"
    [before] = seen(studio, one)
    studio.owner.patch(path, json={field: f"@{one.login} and @{two.login} look"})
    assert [each.id for each in seen(studio, one)] == [before.id]  # it is the same mention
    assert words(studio, two) == [f"@{one.login} and @{two.login} look"]
    studio.owner.patch(path, json={field: f"@{two.login} looks"})
    assert (seen(studio, one), words(studio, two)) == ([], [f"@{two.login} looks"])
    studio.owner.patch(path, json={field: f"@{one.login} looks"})
    assert (words(studio, one), seen(studio, two)) == ([f"@{one.login} looks"], [])
    studio.owner.patch(path, json={field: "nobody looks"})
    assert stored(studio, studio.owner) == []
    # Nobody mentions themselves.
    studio.owner.patch(path, json={field: f"@{studio.owner.login} @{one.login}"})
    assert (len(seen(studio, studio.owner)), len(seen(studio, one))) == (0, 1)
    studio.owner.delete(path)
    assert (seen(studio, studio.owner), seen(studio, one)) == ([], [])
    assert stored(studio, studio.owner) == []


def test_what_a_client_deletes_names_nobody_though_replies_stay(studio: Studio, file: str) -> None:
    path = comment_on_file(studio.client, file, f"@{studio.member.login} look")
    reply(studio.owner, path, f"@{studio.member.login} looks")
    studio.client.delete(path)
    assert stored(studio, studio.client) == []
    assert words(studio, studio.member) == [f"@{studio.member.login} looks"]


def test_a_comment_goes_with_all_that_it_has(studio: Studio, file: str) -> None:
    path = comment_on_file(studio.owner, file, f"@{studio.member.login} look")
    reply(studio.owner, path, f"@{studio.member.login} looks")
    studio.owner.delete(path)
    assert stored(studio, studio.owner) == []


def test_what_is_in_the_trash_is_not_seen(studio: Studio, task: str, file: str) -> None:
    text = f"@{studio.member.login} look"
    comment(studio.owner, task, text)
    comment_on_file(studio.owner, file, text)
    for path in (task, file, studio.project):
        studio.owner.delete(path)
        assert len(seen(studio, studio.member)) == (0 if path == studio.project else 1), path
        studio.owner.post(f"{path}/restore")
        assert len(seen(studio, studio.member)) == 2


def test_who_has_left_sees_nothing_and_who_becomes_a_client_only_what_clients_see(studio: Studio, task: str) -> None:
    person = studio.add(role="write")
    comment(studio.owner, task, f"open @{person.login}")
    comment(studio.owner, task, f"private @{person.login}", private=True)
    assert words(studio, person) == [f"private @{person.login}", f"open @{person.login}"]
    studio.owner.delete(f"{studio.project}/members/{person.login}")
    assert seen(studio, person) == []
    studio.new_client(f"{person.login}@example.com")
    assert words(studio, person) == [f"open @{person.login}"]


def test_a_project_that_becomes_private_is_not_seen_by_members(studio: Studio, task: str) -> None:
    comment(studio.owner, task, f"look @{studio.member.login} @{studio.client.login}")
    studio.owner.patch(studio.project, json={"private": True})
    assert (seen(studio, studio.member), len(seen(studio, studio.client))) == ([], 1)
    comment(studio.owner, task, f"again @{studio.member.login}")
    assert stored(studio, studio.owner).count(studio.member.login) == 1


def test_what_it_costs(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A mention is written with what is sent anyway. Only an edit that replaces names has a trip more."""
    folder = tmp_path_factory.mktemp("counted")
    server = CountedServer({"data": str(folder), **backend.new(folder)}).start()
    owner, member = Caller(server, server.world.token), Caller(server, server.member_token)  # type: ignore[arg-type]  # it has the one method that a caller needs
    try:
        column = owner.post(f"/projects/{server.world.project_id}/columns", json={"title": "To do"})["column"]["id"]
        task = f"/tasks/{owner.new_task(column)['id']}"
        login = member.login

        def trips(method: str, path: str, text: str) -> tuple[int, Any]:
            server.forget()
            answer = owner.answer(method, path, json={"text": text})
            return len(server.statements), answer["task_comment"]["id"]

        trips("POST", f"{task}/task_comments", "the first use of the token is noted")
        plain, _ = trips("POST", f"{task}/task_comments", "plain")
        named, number = trips("POST", f"{task}/task_comments", f"@{login}")
        assert named == plain
        edits = [trips("PATCH", f"/task_comments/{number}", text)[0] for text in (f"@{login}!", "plain", f"@{login}")]
        assert edits == [edits[0]] * 3
        assert trips("PATCH", f"/task_comments/{number}", "@somebody-else")[0] == edits[0] + 1
    finally:
        owner.http.close()
        member.http.close()
        server.close()
