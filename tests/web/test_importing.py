"""The import page: it recognizes the source of a file and previews the import before anything is written."""

from __future__ import annotations

import html
import re
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import httpx
import psutil
import pytest

from tests.harness.server import Server
from tests.web.browser import Browser, add_person, forms
from tests.web.places_kit import join, owner_of, signed_in
from tests.web.studio import HOSTILE, text_of
from tests.work import test_import_asana as asana_files
from tests.work import test_import_github as github_files
from tests.work.test_import_csv import TABLE
from tests.work.trello import encoded
from tests.work.trello_importer import small
from workhook.web.frame import refusals
from workhook.web.welcome.importing import FIELD_LABELS, LOST_LABELS
from workhook.work.portability.imports.json_file import InvalidFile
from workhook.work.portability.imports.plan import SENTENCES, Choices
from workhook.work.portability.imports.sources import SourceFile, plan_of_any
from workhook.work.portability.imports.words import FIELDS


def upload(browser: Browser, action: str, data: bytes, name: str = "board.json", **fields: Any) -> httpx.Response:
    csrf = next(each.fields["csrf"] for each in forms(browser.get("/")) if each.action == "/logout")
    sent = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
    files = {"file": (name, data, "application/octet-stream")}
    return browser.client.post(action, data={"csrf": csrf, **fields}, files=files, headers=sent)


def titles_of(server: Server, token: str) -> list[str]:
    with server.client(token) as client:
        return sorted(each["title"] for each in client.get("/api/v1/projects").json()["projects"])


@pytest.mark.variants("size")
@pytest.mark.parametrize("size", [1 << 20, 15 << 20])
@pytest.mark.parametrize(
    ("start", "each", "end"),
    [
        (b'{"lists":[],"cards":[', b"{}", b"]}"),
        (b'{"lists":[],"cards":[{"attachments":[', b"{}", b"]}]}"),
        (b'{"data":[', b"{}", b"]}"),
        (b'{"items":[', b"{}", b"]}"),
        (b"[", b'{"number":1,"title":"a"}', b"]"),
        (b"Title,More\na", b"\n,", b""),
    ],
)
def test_a_huge_file_is_refused_while_other_requests_are_served(
    server: Server, size: int, start: bytes, each: bytes, end: bytes
) -> None:
    """A separate process with limited resources reads the file, so the server's memory does not grow."""
    world = server.world()
    assert server.process is not None
    process = psutil.Process(server.process.pid)
    data = start + (each + (b"," if end else b"a")) * (size // (len(each) + 1)) + (each + end if end else b"")
    action = f"/{world.organization}/-/import"
    with Browser.of(server, world.owner) as owner, server.client(None) as other, ThreadPoolExecutor(1) as threads:
        before = process.memory_info().rss
        looking = threads.submit(upload, owner, action, data, "much.csv", step="look")
        while wait([looking], timeout=0.1).not_done:
            assert other.get("/healthz", timeout=10).status_code == 200
        looked = looking.result()
        assert looked.status_code == 422, looked.text[:2000]
        assert re.search("can(?:'t)? be imported at once|more than [0-9,]+ (values|lines)", text_of(looked.text))
        assert process.memory_info().rss - before < 200 << 20


def test_the_preview_shows_what_is_created_and_lost(server: Server) -> None:
    world = server.world()
    action = f"/{world.organization}/-/import"
    labels = [{"id": "a", "name": HOSTILE, "color": "red"}]
    card: dict[str, Any] = {"labels": labels, "badges": {"votes": 2}, "idMembers": ["gone"]}
    board = encoded(small(card, {}, name="Relaunch", desc="Our site", labels=labels))
    with signed_in(server, join(server, world, add_person(server), "member")) as member:
        page = member.get(action)
        assert "Preview" in page.text
        before = titles_of(server, world.token)
        looked = upload(member, action, board, step="look")
        assert looked.status_code == 200
        said = text_of(looked.text)
        assert "To be created: 2 cards 2 columns 1 label 0 comments" in said
        assert "Not imported: Project description: 1 Our site" in said
        assert "Votes: 2 (kept as text) Card 0" in said
        assert "No user matches gone." in said
        assert HOSTILE not in looked.text
        assert '<turbo-frame id="import-plan">' in looked.text
        assert titles_of(server, world.token) == before, "nothing was written"
        made = upload(member, action, board, step="import")
        assert made.status_code == 201
        assert "Project description: 1" in text_of(made.text)
        assert titles_of(server, world.token) == sorted([*before, "Relaunch"])
        again = text_of(upload(member, action, board, step="look").text)
        assert "Nothing new to import. 2 existing cards are unchanged." in again


@pytest.mark.parametrize(
    ("data", "name", "title"),
    [
        (asana_files.encoded(*asana_files.project_with()), "x.json", "Website relaunch"),
        (github_files.encoded(github_files.issues_with()), "issues.json", "acme/website"),
        ("Titel;Fällig\nEins;24.12.2026\n".encode(), "Große Pläne.csv", "Große Pläne"),
    ],
)
def test_the_source_of_a_file_is_recognized(server: Server, data: bytes, name: str, title: str) -> None:
    world = server.world()
    action = f"/{world.organization}/-/import"
    with Browser.of(server, world.owner) as owner:
        assert title in text_of(upload(owner, action, data, name, step="look").text)
        made = upload(owner, action, data, name)
        assert made.status_code == 201, text_of(made.text)
        assert title in titles_of(server, world.token)
        assert "Nothing new to import." in text_of(upload(owner, action, data, name).text)
        if not title.startswith("Website"):
            assert upload(owner, action, data, name, title="  Another  ").status_code == 201
            assert "Another" in titles_of(server, world.token)


def test_an_exported_table_can_be_imported(server: Server) -> None:
    world = server.world()
    action = f"/{world.organization}/-/import"
    with Browser.of(server, world.owner) as owner:
        table = TABLE.format(member=world.owner).encode()
        assert upload(owner, action, table, "first.csv").status_code == 201
        exported = owner.get(f"/{world.organization}/first/list.csv").content
        made = upload(owner, action, exported, "second.csv")
        assert made.status_code == 201, text_of(made.text)
    first, second = (_tasks(server, world.token, title) for title in ("first", "second"))
    assert sorted(first) == sorted(second) == ["Announce", "Proofread", "Publish", "Write text"]
    same = ("description", "deadline", "labels", "estimate", "priority", "completed_at", "created_at", "assignees")
    for title, task in first.items():
        assert {name: second[title][name] for name in same} == {name: task[name] for name in same}
        assert second[title]["column"]["title"] == task["column"]["title"]
    assert second["Proofread"]["parent_id"] == second["Write text"]["id"]


def _tasks(server: Server, token: str, title: str) -> dict[str, Any]:
    """Return the tasks of the project with this title, by task title."""
    with server.client(token) as client:
        [project] = [each for each in client.get("/api/v1/projects").json()["projects"] if each["title"] == title]
        tasks = client.get(f"/api/v1/projects/{project['id']}/tasks").json()["tasks"]
    return {each["title"]: each for each in tasks}


def test_errors_are_shown_next_to_the_file_and_nothing_is_written(server: Server) -> None:
    world = server.world()
    action = f"/{world.organization}/-/import"
    with Browser.of(server, world.owner) as owner:
        before = titles_of(server, world.token)
        for step in ("look", "import"):
            refused = upload(owner, action, b"Title,Due\na,soon\nb,later\n", "x.csv", step=step)
            assert refused.status_code == 422
            assert 'id="file-fault"' in refused.text
            said = text_of(refused.text)
            assert "Line 2, Due: “soon” isn’t a date. Use 2026-11-20, 20.11.2026, or" in said
            assert "Line 3, Due: “later” isn’t a date." in said
        assert titles_of(server, world.token) == before


def test_the_assumed_encoding_of_a_table_is_reported(server: Server) -> None:
    world = server.world()
    with Browser.of(server, world.owner) as owner:
        table = "Titel\nGrüße\n".encode("cp1252")
        looked = upload(owner, f"/{world.organization}/-/import", table, "x.csv", step="look")
        assert "The file isn’t UTF-8 and was read as Windows-1252: Grüße" in text_of(looked.text)


def test_a_user_of_another_organization_is_not_assigned(server: Server) -> None:
    """Both organizations have a member in common, but each import matches only its own people."""
    world, other = server.world(), server.world()
    both, theirs = add_person(server), add_person(server)
    join(server, world, both, "member")
    join(server, other, both, "member")
    join(server, other, theirs, "member")
    table = f"Title,Assignee\nOurs,{both.login}\nTheirs,{theirs.login}\n".encode()
    with signed_in(server, both) as browser:
        made = upload(browser, f"/{world.organization}/-/import", table, "people.csv")
        assert made.status_code == 201
        assert f"No user matches {theirs.login}." in text_of(made.text)
    tasks = _tasks(server, world.token, "people").values()
    assigned = {each["title"]: [person["username"] for person in each["assignees"]] for each in tasks}
    assert assigned == {"Ours": [both.login], "Theirs": []}


def test_notes_are_in_the_language_of_the_reader(server: Server) -> None:
    """Names from the file are kept as they are."""
    world = server.world()
    card = {"name": f"{HOSTILE}: {'x' * 300}", "due": "soon", "idMembers": ["gone"]}
    with Browser.of(server, world.owner) as owner:
        owner.client.headers["Accept-Language"] = "de"
        looked = upload(owner, f"/{world.organization}/-/import", encoded(small(card, name="Relaunch")), step="look")
        said = text_of(looked.text)
        assert "3 Hinweise" in said
        assert "Kein passendes Konto gefunden für: gone." in said
        assert "Der Name wurde auf 255 Zeichen gekürzt. Der vollständige Name steht am Anfang der Beschreibung." in said
        assert "Die Fälligkeit „soon“ ist kein gültiges Datum und bleibt im Feld trello_due erhalten." in said
        assert HOSTILE not in looked.text


def test_only_the_first_notes_are_shown_with_the_number_of_others(server: Server) -> None:
    world = server.world()
    cards = [{"name": f"{at} {'x' * 300}"} for at in range(130)]
    with Browser.of(server, world.owner) as owner:
        looked = upload(owner, f"/{world.organization}/-/import", encoded(small(*cards, name="Many")), step="look")
        assert "130 notes" in text_of(looked.text)
        assert looked.text.count("its name was shortened to 255 characters.") == 100
        assert "And 30 more." in text_of(looked.text)


def _choices(page: str) -> dict[str, Any]:
    """Return the form fields that are sent with the file."""
    found: dict[str, list[str]] = {}
    for tag in re.findall(r"<input[^>]*>", page):
        words = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if words.get("form") == "import-form" and (words.get("type") != "checkbox" or " checked" in tag):
            found.setdefault(words["name"], []).append(html.unescape(words["value"]))
    return found


def test_finished_columns_can_be_selected_in_the_preview(server: Server) -> None:
    world = server.world()
    action = f"/{world.organization}/-/import"
    table = "Titel;Status\nEins;Fertig\nZwei;Bezahlt\nDrei;Später\n".encode()
    with Browser.of(server, world.owner) as owner:
        looked = upload(owner, action, table, "Plan.csv", step="look").text
        choices = _choices(looked)
        assert choices == {
            "looked_at": ["Plan.csv"], "title": ["Plan"], "column": ["Fertig", "Bezahlt", "Später"], "done": ["Fertig"],
        }  # fmt: skip
        assert "Creates a new project “Plan”." in text_of(looked)
        assert "Titel → title Status → column" in text_of(looked)
        again = _choices(upload(owner, action, table, "Plan.csv", step="look", **choices | {"done": ["Bezahlt"]}).text)
        assert again["done"] == ["Bezahlt"]
        assert upload(owner, action, table, "Plan.csv", **again | {"title": ["Umbau"]}).status_code == 201
        finished = {
            title: task["completed_at"] is not None for title, task in _tasks(server, world.token, "Umbau").items()
        }
        assert finished == {"Eins": False, "Zwei": True, "Drei": False}


def test_a_later_export_adds_to_the_project_of_the_first(server: Server) -> None:
    world = server.world()
    action = f"/{world.organization}/-/import"
    with Browser.of(server, world.owner) as owner:
        before = titles_of(server, world.token)
        assert upload(owner, action, b"Title\na\n", "plan.csv").status_code == 201
        looked = upload(owner, action, b"Title\na\nb\n", "plan (1).csv", step="look").text
        assert "Adds new items to the previously imported project “plan”." in text_of(looked)
        # Settings made for one file do not apply to another one.
        assert upload(owner, action, b"Title\nc\n", "other.csv", **_choices(looked)).status_code == 201
        assert titles_of(server, world.token) == sorted([*before, "plan", "other"])


def test_people_can_be_matched_in_the_preview(server: Server) -> None:
    """Only members of the organization are offered and accepted."""
    world, other = server.world(), server.world()
    member, theirs = add_person(server), add_person(server)
    join(server, world, member, "member")
    join(server, other, theirs, "member")
    action = f"/{world.organization}/-/import"
    board = encoded(small({"idMembers": ["m"]}, members=[{"id": "m", "username": "jana<", "fullName": "Jana Köhler"}]))
    with Browser.of(server, world.owner) as owner:
        looked = upload(owner, action, board, step="look").text
        assert "Jana Köhler (jana&lt;)" in looked
        assert f'<option value="{member.login}">' in looked
        assert theirs.login not in looked
        choices = _choices(looked)
        assert choices["person"] == ["jana<"]
        refused = upload(owner, action, board, **choices, login=[theirs.login])
        assert refused.status_code == 422
        assert f"No member has the login {theirs.login}." in text_of(refused.text)
        assert "Website relaunch" not in titles_of(server, world.token)
        chosen = upload(owner, action, board, step="look", **choices, login=[member.login]).text
        assert f'<option value="{member.login}" selected>' in chosen
        assert "No user matches Jana" not in chosen
        assert upload(owner, action, board, **choices, login=[member.login]).status_code == 201
        [task] = _tasks(server, world.token, "Website relaunch").values()
        assert [each["username"] for each in task["assignees"]] == [member.login]


def test_many_columns_and_people_fit_into_the_form(server: Server) -> None:
    world = server.world()
    action = f"/{world.organization}/-/import"
    lines = [f"Task {at},Column {at},Person {at}" for at in range(80)]
    table = "\n".join(["Title,Status,Assignee", *lines]).encode()
    with Browser.of(server, world.owner) as owner:
        choices = _choices(upload(owner, action, table, "many.csv", step="look").text)
        assert (len(choices["column"]), len(choices["person"])) == (50, 30)
        choices |= {"done": choices["column"], "login": [""] * 30}
        assert upload(owner, action, table, "many.csv", **choices).status_code == 201


def test_the_setup_has_an_import_preview_too(server: Server) -> None:
    world = server.world()
    with Browser.of(server, owner_of(server, world).login) as owner:
        before = titles_of(server, world.token)
        looked = upload(owner, "/welcome/import", b"Title\na\n", "first.csv", step="look")
        assert looked.status_code == 200
        assert "To be created: 1 card 1 column" in text_of(looked.text)
        assert titles_of(server, world.token) == before


def test_every_possible_loss_has_a_label() -> None:
    assert set(LOST_LABELS) == set(SENTENCES)
    assert set(FIELD_LABELS) == {*FIELDS, "field", "nothing"}


@pytest.mark.parametrize(
    "table",
    [
        "Id,Title\n1,a\n1,b\n", "Title,Due\na,soon\n", "Title,Done\na,perhaps\n", "Title,Estimate\na,much\n",
        "A\n1\n", "", "Title\na,b\n", 'Title\n"a\n', 'Title\n"a"b\n', "Title\n\udc81\n", "Title\n\0\n",
        "Title\n" + "a" * 200_000, 'Title\n"' + "a" * 200_000, "%PDF-1", "PK\3\4", "PK\3\4xl/workbook.xml",
        "PK\3\4mimetypeapplication/vnd.oasis.opendocument.spreadsheet", "PK\3\4Index/Document.iwa", "[" * 50_000,
        "[" + "9" * 5_000 + "]", "[" + "1," * 1_000_000 + "1]", '{"lists":[' + "{}," * 20_000 + "{}]}",
        "Title" + ",a" * 60 + "\n" + ("a" + ",a" * 60 + "\n") * 17_000,
    ],
)  # fmt: skip
def test_every_error_in_a_file_has_a_message(table: str) -> None:
    with pytest.raises(InvalidFile) as raised:
        plan_of_any(SourceFile("x.csv", table.encode(errors="surrogateescape")), Choices())
    [fault] = raised.value.faults
    said = refusals.in_words(fault)
    assert said != fault
    assert said.endswith(".")
