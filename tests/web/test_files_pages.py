"""Folders, uploads by form, and the page of a file with its comments, including permissions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.browser.people import Team, make_team
from tests.harness.server import Server
from tests.web.browser import Browser, forms
from workhook.web.files import view
from workhook.web.frame.formats import file_size

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
HOSTILE = ("<script>alert(1)</script>", "\u202egpj.exe", "x" * 255, "🦄" * 100)


@dataclass
class Project:
    """A project in the browsers of its people, with API access."""

    server: Server
    team: Team
    owner: Browser
    member: Browser
    client: Browser

    @property
    def path(self) -> str:
        return f"/{self.team.world.full_name}/files"

    def upload(
        self, browser: Browser, name: str, content: bytes, kind: str = "text/plain", **more: str
    ) -> httpx.Response:
        headers = {"Origin": "null", "Sec-Fetch-Site": "same-origin", "Accept": more.pop("accept", "text/html")}
        fields = {"csrf": csrf(browser, self.path), **more}
        return browser.client.post(self.path, data=fields, files={"file": (name, content, kind)}, headers=headers)

    def made(self, browser: Browser, name: str, content: bytes = b"x", **more: str) -> dict[str, Any]:
        answer = self.upload(browser, name, content, accept="application/json", **more)
        assert answer.status_code == 201, answer.text
        file: dict[str, Any] = answer.json()["file"]
        return file


def csrf(browser: Browser, path: str) -> str:
    return next(each.fields["csrf"] for each in forms(browser.get(path)) if each.action == "/logout")


@pytest.fixture
def project(server: Server) -> Iterator[Project]:
    team: Team = server.run(make_team)
    browsers = [Browser.of(server, each.login) for each in team.everybody.values()]
    yield Project(server, team, *browsers)
    for each in browsers:
        each.__exit__()


def test_a_file_is_uploaded_with_a_plain_form(project: Project) -> None:
    answer = project.upload(project.member, "plan.txt", b"first line\n<b>second</b>")
    assert (answer.status_code, answer.headers["location"]) == (303, project.path)
    listed = project.member.get(project.path).text
    assert "“plan.txt” was uploaded." in listed
    assert "24 B" in listed
    file = project.made(project.owner, "photo.png", PNG)
    page = project.client.get(f"{project.path}/{file['id']}")
    assert "content-encoding" not in page.headers, "the page shows a signed link"
    [link] = {part.partition('"')[0] for part in page.text.split('href="')[1:] if "/content?" in part}
    assert link.startswith("/api/v1/files/")
    with Browser(project.server) as nobody:
        content = nobody.get(link.replace("&amp;", "&"))
    assert (content.content, content.headers["content-disposition"][:10]) == (PNG, "attachment")
    assert content.headers["content-security-policy"].startswith("sandbox")
    plain, folded = page.text.split('<summary class="small">Details</summary>')
    assert file["sha256"] not in plain
    assert "image/png" not in plain[plain.index('class="card facts"') :]
    assert file["sha256"] in folded


def test_file_links_in_answers_point_to_the_api(project: Project) -> None:
    """The event contains the same link and is also sent to receivers."""
    file = project.made(project.member, "a.txt")
    assert f"/api/v1/files/{file['id']}/content?" in file["file_link"]
    assert httpx.get(file["file_link"]).content == b"x"


def test_an_upload_is_refused_before_its_content_is_stored(project: Project) -> None:
    own, others = csrf(project.member, project.path), csrf(project.owner, project.path)
    for fields, headers in (
        ({}, {}),
        ({"csrf": others}, {}),
        ({"csrf": own}, {"Sec-Fetch-Site": "cross-site"}),
        ({"csrf": own}, {"Sec-Fetch-Site": "same-site"}),
    ):
        sent = {"Origin": "null", "Sec-Fetch-Site": "same-origin", **headers}
        answer = project.member.client.post(project.path, data=fields, files={"file": ("a", b"x")}, headers=sent)
        assert answer.status_code == 403, answer.text
    late = b"".join(  # the token after the file arrives too late
        b'--edge\r\nContent-Disposition: form-data; name="%s\r\n\r\n%s\r\n' % part
        for part in ((b'file"; filename="a"', b"x"), (b'csrf"', own.encode()))
    )
    sent = {
        "Origin": "null",
        "Sec-Fetch-Site": "same-origin",
        "Content-Type": "multipart/form-data; boundary=edge",
    }
    assert project.member.client.post(project.path, content=late + b"--edge--\r\n", headers=sent).status_code == 403
    empty = project.upload(project.member, "", b"")
    assert empty.status_code == 422
    assert "No files yet." in project.member.get(project.path).text


def test_a_script_receives_the_reason_for_a_failed_upload(project: Project) -> None:
    answer = project.upload(project.client, "a.txt", b"x", accept="application/json", private="1")
    assert answer.status_code == 403
    assert answer.json()["message"] == "Clients cannot make files private."


def test_folders_come_first_and_an_empty_one_can_be_deleted_and_restored(project: Project) -> None:
    folders = f"/{project.team.world.full_name}/folders"
    answer = project.member.fill(project.path, folders, title="Designs")
    there = answer.headers["location"]
    folder_id = there.rpartition("=")[2]
    project.made(project.member, "top.txt")
    inside = project.made(project.member, "inside.txt", folder=folder_id)
    top = project.member.get(project.path).text
    assert top.index("Designs") < top.index("top.txt")
    assert "inside.txt" not in top
    assert "inside.txt" in project.client.get(there).text
    delete = f"{folders}/{folder_id}/delete"
    full = project.member.fill(there, delete)
    assert (full.status_code, "The folder still contains files" in full.text) == (409, True)
    project.member.fill(project.path + f"/{inside['id']}", f"{project.path}/{inside['id']}/delete")
    assert project.member.fill(there, delete).status_code == 303
    undo = next(each for each in forms(project.member.get(project.path)) if "Undo" in each.buttons)
    assert project.member.post(undo.action, undo.fields).status_code == 303
    assert "Designs" in project.member.get(project.path).text
    assert project.member.get(f"{project.path}?folder={folder_id}").status_code == 404


def test_a_deleted_file_is_restored(project: Project) -> None:
    file = project.made(project.member, "gone.txt")
    place = f"{project.path}/{file['id']}"
    assert project.member.fill(project.path, f"{place}/delete").headers["location"] == project.path
    assert project.member.get(place).status_code == 404
    assert project.member.post(f"{place}/restore", {"csrf": csrf(project.member, "/")}).status_code == 303
    assert "gone.txt" in project.member.get(project.path).text


def test_private_files_are_invisible_to_clients(project: Project) -> None:
    hidden = project.made(project.member, "secret.txt", private="1")
    shown = project.made(project.member, "shown.txt")
    listed = project.client.get(project.path).text
    assert "shown.txt" in listed
    assert "secret.txt" not in listed
    assert "rivate" not in listed
    assert project.client.get(f"{project.path}/{hidden['id']}").status_code == 404
    assert "Hidden from clients" in project.member.get(project.path).text
    place = f"{project.path}/{shown['id']}"
    assert f"{place}/delete" not in project.client.get(place).text, "it is not the client's own"
    assert project.client.post(f"{place}/delete", {"csrf": csrf(project.client, "/")}).status_code == 403
    own = project.made(project.client, "mine.txt")
    assert project.client.fill(project.path, f"{project.path}/{own['id']}/delete").status_code == 303


def test_comments_have_replies_and_private_ones_are_for_members(project: Project) -> None:
    file = project.made(project.member, "a.txt")
    place = f"{project.path}/{file['id']}"
    said = project.client.post(f"{place}/comments", {"csrf": csrf(project.client, "/"), "text": "Is <b>this</b> it?"})
    comment = said.headers["location"].rpartition("-")[2]
    member = {"csrf": csrf(project.member, "/")}
    replies = f"{place}/comments/{comment}/replies"
    assert project.member.post(replies, {**member, "body": "Yes <i>it</i> is<script>x</script>"}).status_code == 303
    assert project.member.post(replies, {**member, "body": "Let us wait", "private": "1"}).status_code == 303
    assert project.member.post(f"{place}/comments", {**member, "text": "Inside", "private": "1"}).status_code == 303
    seen, whole = project.client.get(place).text, project.member.get(place).text
    assert "Is &lt;b&gt;this&lt;/b&gt; it?" in seen
    assert "Yes <i>it</i> is" in seen
    assert "<script>x" not in seen
    for text in ("Let us wait", "Inside"):
        assert text not in seen
        assert text in whole
    assert project.client.post(f"{place}/comments/{comment}/edit", {"csrf": csrf(project.client, "/"), "text": "It is"})
    assert "It is" in project.member.get(place).text
    other = project.made(project.member, "b.txt")
    wrong = f"{project.path}/{other['id']}/comments/{comment}"
    assert project.member.post(f"{wrong}/delete", member).status_code == 404, "it is on another file"
    owner = {"csrf": csrf(project.owner, "/")}
    assert project.owner.post(f"{place}/comments/{comment}/delete", owner).status_code == 303
    assert "It is" not in project.member.get(place).text


def test_hostile_names_are_escaped(project: Project) -> None:
    for title in HOSTILE:
        file = project.made(project.member, "a.bin", title=title)
        for page in (project.member.get(project.path), project.member.get(f"{project.path}/{file['id']}")):
            assert page.status_code == 200
            assert "<script>alert" not in page.text
            assert f"<bdi>{title.replace('<', '&lt;').replace('>', '&gt;')}</bdi>" in page.text


def test_a_file_is_not_shown_in_another_project(project: Project) -> None:
    """Not even to a user with access to both projects."""
    file = project.made(project.member, "a.txt")
    headers = {"Authorization": f"Bearer {project.team.owner.token}"}
    made = httpx.post(
        f"{project.server.url}/api/v1/projects",
        json={"title": "Other", "organization": project.team.world.organization},
        headers=headers,
    )
    assert made.status_code == 200, made.text
    other = f"/{project.team.world.organization}/other"
    assert project.owner.get(f"{other}/files").status_code == 200
    assert project.owner.get(f"{other}/files/{file['id']}").status_code == 404
    answer = project.owner.post(f"{other}/files/{file['id']}/delete", {"csrf": csrf(project.owner, "/")})
    assert answer.status_code == 404


@pytest.mark.whole
def test_many_files_are_paginated(project: Project) -> None:
    names = [f"file-{number:03}.txt" for number in range(view.FILES_MAX + 1)]
    for name in names:
        project.made(project.member, name)
    first = project.member.get(project.path).text
    assert names[-1] in first
    assert names[0] not in first
    [older] = [part.partition('"')[0] for part in first.split('href="')[1:] if "before=" in part]
    second = project.member.get(older.replace("&amp;", "&")).text
    assert names[0] in second
    assert names[-1] not in second


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**20, "1 MiB"), (300 * 2**30, "300 GiB")]
)
def test_file_sizes_are_formatted(count: int, shown: str) -> None:
    assert file_size(count) == shown


def undo(browser: Browser, answer: httpx.Response) -> httpx.Response:
    assert answer.status_code == 303, answer.text
    form = next(each for each in forms(browser.get(answer.headers["location"])) if "Undo" in each.buttons)
    return browser.post(form.action, form.fields)


def moved(browser: Browser, project: Project, folder: str, *files: str, back: str = "") -> httpx.Response:
    """Send the form of the list with these files selected."""
    fields = {"csrf": csrf(browser, "/"), "back": back, "folder": folder, **{f"file-{each}": "1" for each in files}}
    return browser.post(f"{project.path}/move", fields)


def new_folder(project: Project, title: str) -> str:
    answer = project.member.post(
        f"/{project.team.world.full_name}/folders", {"csrf": csrf(project.member, "/"), "title": title}
    )
    return str(answer.headers["location"].rpartition("=")[2])


def test_files_and_folders_are_renamed_and_the_renaming_undone(project: Project) -> None:
    folder = new_folder(project, "Designs")
    file = project.made(project.member, "draft.txt", folder=folder)
    place, there = f"{project.path}/{file['id']}", f"{project.path}?folder={folder}"
    folders = f"/{project.team.world.full_name}/folders"
    for action, title, page in (
        (f"{place}/rename", "Final.txt", place),
        (f"{folders}/{folder}/rename", "<b>Old</b> designs", there),
    ):
        answer = project.member.fill(page, action, title=title)
        assert (answer.status_code, answer.headers["location"]) == (303, page), answer.text
        shown = project.member.get(page).text  # shows the message once
        assert f"<h1><bdi>{title.replace('<', '&lt;').replace('>', '&gt;')}</bdi></h1>" in shown
        assert "was renamed to" in shown
        again = project.member.fill(page, action, title="Again")
        assert undo(project.member, again).headers["location"] == page
        assert f"<h1><bdi>{title.replace('<', '&lt;').replace('>', '&gt;')}</bdi></h1>" in project.member.get(page).text
        for wrong in ("", " ", "x" * 256):
            assert project.member.fill(page, action, title=wrong).status_code == 422
    assert project.client.get(there).text.count("/rename") == 0, "what is others' stays as it is"
    for path in (f"{place}/rename", f"{folders}/{folder}/rename"):
        refused = project.client.post(path, {"csrf": csrf(project.client, "/"), "title": "Mine"})
        assert refused.status_code == 403, refused.text


def test_several_files_are_moved_together_and_the_move_undone(project: Project) -> None:
    folder, other = new_folder(project, "Designs"), new_folder(project, "Texts")
    files = [project.made(project.member, f"{number}.txt")["id"] for number in range(3)]
    page = project.member.get(project.path).text
    assert all(f'name="file-{each}"' in page for each in files)
    nothing = moved(project.member, project, folder)
    assert "Select at least one file first." in project.member.get(nothing.headers["location"]).text
    answer = moved(project.member, project, folder, *files[:2])
    assert answer.headers["location"] == project.path
    there = f"{project.path}?folder={folder}"
    assert [each in project.client.get(there).text for each in files] == [True, True, False]
    assert undo(project.member, answer).headers["location"] == project.path
    assert all(each in project.member.get(project.path).text for each in files), "this uses up the message"
    one = project.member.fill(f"{project.path}/{files[0]}", f"{project.path}/move", folder=other)
    assert one.headers["location"] == f"{project.path}/{files[0]}"
    assert "1 file was moved." in project.member.get(f"{project.path}/{files[0]}").text
    out = moved(project.member, project, "", files[0], back=f"folder={other}")
    assert out.headers["location"] == f"{project.path}?folder={other}"
    assert files[0] in project.member.get(project.path).text


def test_a_client_can_move_only_its_own_files(project: Project) -> None:
    folder = new_folder(project, "Designs")
    own, others = project.made(project.client, "own.txt")["id"], project.made(project.member, "others.txt")["id"]
    hidden = project.made(project.member, "hidden.txt", private="1")["id"]
    page, move = project.client.get(project.path).text, f"{project.path}/move"
    assert [f'name="file-{each}"' in page for each in (own, others, hidden)] == [True, False, False]
    csrf_field = {"csrf": csrf(project.client, "/"), "folder": folder}
    for wrong, status in ((others, 403), (hidden, 404), ("fil_none", 404)):
        refused = project.client.post(move, {**csrf_field, f"file-{own}": "1", f"file-{wrong}": "1"})
        assert refused.status_code == status, refused.text
    assert own in project.client.get(project.path).text, "all are moved or none"
    assert project.client.post(move, {**csrf_field, f"file-{own}": "1", "folder": "fld_none"}).status_code == 422
    assert moved(project.client, project, folder, own).status_code == 303
    assert own not in project.client.get(project.path).text
