"""Task descriptions and comments as Markdown, their previews, and the history of a task."""

from __future__ import annotations

import html
import re

from tests.harness.server import Server
from tests.web.browser import Browser, forms
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, send, text_of
from workhook.http.calls import Services
from workhook.identity.tokens.lookup import find_actor
from workhook.work.board.tasks.actions import get_task
from workhook.work.history.activity.queries import read_task_history
from workhook.work.kernel.access import find_access

MARKDOWN = "**bold** [x](javascript:alert(1)) <b>raw</b>"


def new_task(studio: Studio, **facts: str) -> str:
    """Create a task and return the address of its page."""
    return f"{studio.base}/tasks/{studio.add_task(studio.add_column('To do'), 'Logo', **facts)}"


def test_descriptions_and_comments_are_markdown(studio: Studio) -> None:
    path = new_task(studio, description=MARKDOWN)
    send(studio.member, f"{path}/comments", text=f"*first* @{studio.team.owner.login} @nobody {HOSTILE}")
    page = page_of(studio.owner, path)
    assert "<strong>bold</strong> [x](javascript:alert(1)) &lt;b&gt;raw&lt;/b&gt;</p>" in page
    assert f'<em>first</em> <span class="mention mention-me">@{studio.team.owner.login}</span> @nobody' in page
    assert "<img" not in page[page.index("<main") :]


def test_file_comments_are_markdown(studio: Studio) -> None:
    made = studio.api.post(f"/api/v1{studio.project}/files", files={"file": ("a.txt", b"a", "text/plain")}).json()[
        "file"
    ]["id"]
    studio.call("POST", f"/files/{made}/file_comments", text=MARKDOWN)
    page = page_of(studio.client, f"{studio.base}/files/{made}")
    assert "<strong>bold</strong> [x](javascript:alert(1)) &lt;b&gt;raw&lt;/b&gt;</p>" in page


def preview(browser: Browser, path: str, key: str, **fields: str) -> str:
    answer = send(browser, f"{path}/preview", preview=key, **fields)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.text


def test_a_preview_contains_the_form_for_saving(studio: Studio) -> None:
    path = new_task(studio, description="before")
    shown = send(studio.member, f"{path}/preview", preview="description", description=MARKDOWN, was="x")
    assert '<turbo-frame id="preview-description">' in shown.text
    assert "<strong>bold</strong>" in shown.text
    [form] = [each for each in forms(shown) if each.action == f"{path}/edit"]
    assert (form.fields["field"], form.fields["was"]) == ("description", "x")
    assert f"\n{MARKDOWN}</textarea>" in html.unescape(shown.text)
    assert "before" in page_of(studio.owner, path), "nothing was saved"
    new = send(studio.member, f"{path}/preview", preview="new", text="*x*", private="1")
    [form] = [each for each in forms(new) if each.action == f"{path}/comments"]
    assert form.fields["private"] == "1"
    assert [each.action for each in forms(send(studio.member, f"{path}/preview", preview="7", text="x"))][1:] == [
        f"{path}/comments/7/edit"
    ]
    assert send(studio.member, f"{path}/preview", preview="x/../y", text="x").status_code == 400


def test_only_writers_get_a_preview(server: Server, studio: Studio) -> None:
    path = new_task(studio)
    page = preview(studio.client, path, "new", text="*x*", private="1")
    assert "<em>x</em>" in page
    assert 'name="private"' not in page
    with open_studio(server) as other:
        assert send(other.owner, f"{path}/preview", preview="new", text="x").status_code == 404
        elsewhere = path.replace(studio.base, other.base)
        assert send(other.owner, f"{elsewhere}/preview", preview="new", text="x").status_code == 404
    studio.call("PATCH", studio.project, archive=True)
    assert send(studio.owner, f"{path}/preview", preview="new", text="x").status_code == 403


def test_a_comment_is_hidden_and_shown_again(studio: Studio) -> None:
    path = new_task(studio)
    number = send(studio.member, f"{path}/comments", text="Aside").headers["location"].rpartition("-")[2]
    assert "Aside" in page_of(studio.client, path)
    send(studio.member, f"{path}/comments/{number}/edit", text="Aside", private="1")
    assert "Aside" not in page_of(studio.client, path)
    send(studio.member, f"{path}/comments/{number}/edit", text="Aside")
    assert "Aside" in page_of(studio.client, path)
    own = send(studio.client, f"{path}/comments", text="Mine").headers["location"].rpartition("-")[2]
    assert send(studio.client, f"{path}/comments/{own}/edit", text="Mine!").status_code == 303
    assert "Mine!" in page_of(studio.owner, path)


def sentences_of(page: str) -> list[str]:
    frame = page[page.index('<turbo-frame id="history"') : page.index("</turbo-frame>")]
    found = re.findall(r'<p class="grow"><span>(.*?)</span> <span class="quiet', frame, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]*>", "", each)) for each in found]


def test_the_history_contains_only_events_of_the_task(studio: Studio) -> None:
    who = "Octo"
    column, done = studio.add_column("To do"), studio.add_column("Done")
    task = studio.add_task(column, "Logo")
    # Another task that contains this one's ID in its title.
    other = studio.add_task(column, f'"id":"{task}"')
    studio.call("PATCH", f"/tasks/{other}", description=f'"id":"{task}"')
    studio.call("PATCH", f"/tasks/{task}", priority="high")
    studio.call("PATCH", f"/tasks/{task}", column_id=done)
    studio.call("POST", f"/tasks/{task}/task_comments", text="Good", private=True)
    path = f"{studio.base}/tasks/{task}"
    page = page_of(studio.member, f"{path}/history")
    assert sentences_of(page) == [
        f"{who} commented.",
        f"{who} moved the task from To do to Done.",
        f"{who} changed the priority.",
        f"{who} created the task.",
    ]
    assert 'rel="next"' not in page
    assert f'src="{path}/history"' in page_of(studio.owner, path)


def test_task_numbers_become_links_in_texts(studio: Studio) -> None:
    column = studio.add_column("To do")
    tasks = [studio.add_task(column, f"Task {number}") for number in range(1, 4)]
    studio.call("DELETE", f"/tasks/{tasks[2]}")
    path = f"{studio.base}/tasks/{tasks[0]}"
    studio.call("PATCH", f"/tasks/{tasks[0]}", description="After #2, `#2`, not #3, not #99.")
    send(studio.client, f"{path}/comments", text="See #1")
    link = '<a class="task-link" href="{base}/tasks/{task}">#{number}</a>'
    two = link.format(base=studio.base, task=tasks[1], number=2)
    for browser in (studio.owner, studio.member, studio.client):
        page = page_of(browser, path)
        assert f"<p>After {two}, <code>#2</code>, not #3, not #99.</p>" in page
        assert "See " + link.format(base=studio.base, task=tasks[0], number=1) in page
    assert two in preview(studio.member, path, "new", text="#2")
    upload = {"file": ("a.txt", b"a", "text/plain")}
    file = studio.api.post(f"/api/v1{studio.project}/files", files=upload).json()["file"]["id"]
    remark = studio.call("POST", f"/files/{file}/file_comments", text="On #2")["id"]
    studio.call("POST", f"/file_comments/{remark}/comments", body="<b>#2</b> <code>#2</code>")
    page = page_of(studio.owner, f"{studio.base}/files/{file}")
    assert f"On {two}" in page
    assert f"<b>{two}</b> <code>#2</code>" in page


def test_the_history_shows_who_mentioned_the_task_and_where(studio: Studio) -> None:
    who, column = "Octo", studio.add_column("To do")
    task, other = (studio.add_task(column, title) for title in ("Logo", "Icons"))
    studio.call("PATCH", f"/tasks/{other}", description="Like #1")
    studio.call("PATCH", f"/tasks/{other}", description="Just like #1")
    studio.call("PATCH", f"/tasks/{other}", title="Icons of #1")
    studio.call("PATCH", f"/tasks/{other}", description="`#1` #12")
    studio.add_task(column, "Third", description="(#1)")
    said = studio.call("POST", f"/tasks/{other}/task_comments", text="#1?", private=True)["task_comment"]
    studio.call("PATCH", f"/task_comments/{said['id']}", text="#1!")
    studio.call("PATCH", f"/tasks/{task}", description="I am #1")
    upload = {"file": ("a.txt", b"a", "text/plain")}
    file = studio.api.post(f"/api/v1{studio.project}/files", files=upload).json()["file"]["id"]
    remark = studio.call("POST", f"/files/{file}/file_comments", text="On #1")["id"]
    studio.call("POST", f"/file_comments/{remark}/comments", body="<b>#1</b>")
    page = page_of(studio.member, f"{studio.base}/tasks/{task}/history")
    assert sentences_of(page) == [
        f"{who} mentioned the task in a reply to a comment on a file.",
        f"{who} mentioned the task in a comment on the file “a.txt”.",
        f"{who} changed the description.",
        f"{who} mentioned the task in a comment on “Icons of #1”.",
        f"{who} mentioned the task in the description of “Third”.",
        f"{who} mentioned the task in the description of “Icons”.",
        f"{who} created the task.",
    ]
    assert f'href="{studio.base}/tasks/{other}#{said["id"]}"' in page
    assert "mentioned" not in "".join(sentences_of(page_of(studio.member, f"{studio.base}/tasks/{other}/history")))


def test_the_history_names_the_commit_that_completed_the_task(studio: Studio) -> None:
    column = studio.add_column("To do")
    done = studio.add_column("Done", finished=True)
    task = studio.add_task(column, "Logo")
    said = {"id": "abcdef0123", "message": f"Draw {HOSTILE}\n\nCloses #1"}
    body = {"event": "push", "payload": {"ref": "refs/heads/main", "commits": [said]}}
    assert studio.api.post(f"{studio.team.world.repo_path}/events", json=body).status_code == 202
    page = page_of(studio.member, f"{studio.base}/tasks/{task}/history")
    assert sentences_of(page)[0].startswith("Octo completed the task with commit abcdef0 “Draw ")
    assert "<code>abcdef0</code>" in page
    assert HOSTILE not in page
    assert studio.call("GET", f"/tasks/{task}")["task"]["column"]["id"] == done
    assert "with commit" in text_of(page_of(studio.member, f"{studio.base}/activity"))


def test_the_history_is_paginated(studio: Studio) -> None:
    path = new_task(studio)
    task = path.rpartition("/")[2]
    for number in range(31):
        studio.call("PATCH", f"/tasks/{task}", description=str(number))
    first = page_of(studio.owner, f"{path}/history")
    [more] = re.findall(r'href="([^"]*)" rel="next"', first)
    assert "Back to the latest" not in first
    second = page_of(studio.owner, html.unescape(more))
    assert (len(sentences_of(first)), len(sentences_of(second))) == (30, 2)
    assert "created the task" in sentences_of(second)[1]
    assert 'rel="next"' not in second
    assert "Back to the latest" in second
    for odd in ("x", "-1", "9" * 30, "²"):
        assert len(sentences_of(page_of(studio.owner, f"{path}/history", before=odd))) == 30


def test_a_page_of_history_scans_a_limited_number_of_events(server: Server, studio: Studio) -> None:
    column = studio.add_column("To do")
    task = studio.add_task(column, "Logo")
    for number in range(4):
        studio.add_task(column, f"Other {number}")

    async def read(services: Services) -> list[tuple[int, int | None]]:
        actor = await find_actor(services.database, studio.team.owner.token)
        assert actor is not None
        access = await find_access(services.database, actor, studio.team.world.project_id)
        found = await get_task(services.database, actor, task)
        first = await read_task_history(services.database, access, found, before=None, limit=9, looks_at=3)
        second = await read_task_history(services.database, access, found, before=first[1], limit=9, looks_at=3)
        return [(len(rows), before) for rows, before in (first, second)]

    [(none, further), (one, end)] = server.run(read)
    assert (none, one, end) == (0, 1, None)
    assert further is not None


def test_clients_and_strangers_cannot_see_the_history(server: Server, studio: Studio) -> None:
    path = new_task(studio)
    assert studio.client.get(f"{path}/history").status_code == 404
    assert "istory" not in text_of(page_of(studio.client, path))
    with open_studio(server) as other:
        assert other.owner.get(f"{path}/history").status_code == 404
        assert other.owner.get(f"{path.replace(studio.base, other.base)}/history").status_code == 404
