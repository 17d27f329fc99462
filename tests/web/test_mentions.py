"""Mentions: the section on My work, limited to what each user may see, and suggestions while typing."""

from __future__ import annotations

import html
import re

from tests.harness.server import Server
from tests.web.browser import Browser
from tests.web.places_kit import add_in, join, leave, signed_in
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, text_of

_SUGGESTED = re.compile(r'role="option" id="[^"]*" aria-selected="false" data-login="([^"]*)"')


def mentioned(browser: Browser) -> list[tuple[str, str]]:
    """Return the address and text of each mention on My work."""
    page = page_of(browser, "/")
    if "mentions-title" not in page:
        return []
    block = page[page.index("mentions-title") :]
    items = block[: block.index("</ul>")].split("<li ")[1:]
    return [(item.split('href="')[1].split('"')[0], _read("<li " + item)) for item in items]


def _read(part: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", part)).split())


def test_users_see_their_mentions_as_far_as_they_have_access(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Landing page")
    upload = {"file": ("plan.txt", b"x", "text/plain")}
    file = studio.api.post(f"/api/v1{studio.project}/files", files=upload).json()["file"]["id"]
    member, client = (f"@{each.login}" for each in (studio.team.member, studio.team.client))
    said = studio.call("POST", f"/tasks/{task}/task_comments", text=f"**Look**, {member} and {client}")
    number = said["task_comment"]["id"]
    studio.call("POST", f"/tasks/{task}/task_comments", text=f"They pay late, {member} {client}", private=True)
    remark = studio.call("POST", f"/files/{file}/file_comments", text="Which?")["id"]
    answer = studio.call("POST", f"/file_comments/{remark}/comments", body=f"<p>This, <b>{client}</b></p>")["comment"]
    assert mentioned(studio.owner) == []
    assert "Mentions" not in text_of(page_of(studio.owner, "/"))
    private, open_ = mentioned(studio.member)
    assert "They pay late" in private[1]
    assert open_[0] == f"{studio.base}/tasks/{task}#comment-{number}"
    assert open_[1].startswith(f"Landing page Look, {member} and {client} Octo · Website · ")
    on_file, on_task = mentioned(studio.client)
    assert on_file[0] == f"{studio.base}/files/{file}#reply-{answer['id']}"
    assert f"plan.txt This, {client} Octo · Website" in on_file[1]
    assert on_task[0] == open_[0]
    for browser, found in ((studio.member, [private, open_]), (studio.client, [on_file, on_task])):
        for address, _ in found:
            path, _, anchor = address.partition("#")
            assert f'id="{anchor}"' in page_of(browser, path)
    page = page_of(studio.client, on_file[0].partition("#")[0])
    assert f'<b><span class="mention mention-me">{client}</span></b>' in page


def test_mentioned_comments_are_escaped(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), HOSTILE)
    studio.call("POST", f"/tasks/{task}/task_comments", text=f"@{studio.team.member.login} {HOSTILE} {'x' * 300}")
    page = page_of(studio.member, "/")
    assert "<img src=x" not in page
    [(_, text)] = mentioned(studio.member)
    assert "<img src=x onerror=alert(1)>" in text
    assert "x…" in text
    assert "x" * 250 not in text


def test_mentions_disappear_with_access_and_never_cross_organizations(server: Server) -> None:
    with open_studio(server) as here, open_studio(server) as there:
        person = add_in(server, here.team.world, "member")
        for each in (here, there):
            task = each.add_task(each.add_column("To do"), "Landing page")
            each.call("POST", f"/tasks/{task}/task_comments", text=f"@{person.login} of {each.team.world.organization}")
        with signed_in(server, person) as browser:
            [(_, text)] = mentioned(browser)
            assert here.team.world.organization in text
            join(server, there.team.world, person, "client")
            there.call("POST", f"/tasks/{task}/task_comments", text=f"@{person.login} again")
            assert [address.split("/tasks/")[0] for address, _ in mentioned(browser)] == [there.base, here.base]
            leave(server, here.team.world, person)
            assert [address.split("/tasks/")[0] for address, _ in mentioned(browser)] == [there.base]
            assert here.team.world.organization not in page_of(browser, "/")


def test_only_people_visible_to_the_user_are_suggested(server: Server, studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Landing page")
    upload = {"file": ("plan.txt", b"x", "text/plain")}
    file = studio.api.post(f"/api/v1{studio.project}/files", files=upload).json()["file"]["id"]
    other_client, reader = (add_in(server, studio.team.world, place) for place in ("client", "read"))
    logins = [each.login for each in (*studio.team.everybody.values(), other_client, reader)]
    owner, member, client, _, _ = logins
    team = {owner, member, reader.login}
    for path in (f"{studio.base}/tasks/{task}", f"{studio.base}/files/{file}"):
        assert set(_SUGGESTED.findall(page_of(studio.owner, path))) == set(logins) - {owner}
        assert set(_SUGGESTED.findall(page_of(studio.member, path))) == set(logins) - {member}
        page = page_of(studio.client, path)
        assert set(_SUGGESTED.findall(page)) == team
        assert other_client.login not in page
        assert client in page
        with signed_in(server, reader) as browser:  # a reader cannot write, so no names are needed
            assert _SUGGESTED.findall(page_of(browser, path)) == []
