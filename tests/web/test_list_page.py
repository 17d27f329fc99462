"""The list of a project's tasks: filters, order, groups, changes in place, and the table for spreadsheets."""

from __future__ import annotations

import csv
import io
import re

from tests.harness.server import Server
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, send, text_of, undo


def titles(page: str) -> list[str]:
    return re.findall(r'<th scope="row"[^>]*>.*?<a [^>]*>(.*?)</a>', page, re.DOTALL)


def test_filters_narrow_the_list_and_stay_in_its_addresses(studio: Studio) -> None:
    to_do, done = studio.add_column("To do"), studio.add_column("Done", stage="done", finished=True)
    member = studio.team.member.login
    studio.add_task(to_do, "Logo", priority="high", labels=["print"], assignees=[member], deadline="2026-03-02")
    studio.add_task(to_do, "Flyer", priority="low", deadline="2026-03-05", description="with the old motto")
    studio.add_task(done, "Motto")
    path = f"{studio.base}/list"
    for query, found in (
        ({}, ["Logo", "Flyer", "Motto"]),
        ({"priority": "high", "label": "", "q": ""}, ["Logo"]),
        ({"label": "print"}, ["Logo"]),
        ({"assignee": member}, ["Logo"]),
        ({"finished": "true"}, ["Motto"]),
        ({"finished": "false"}, ["Logo", "Flyer"]),
        ({"deadline_after": "2026-03-02"}, ["Flyer"]),
        ({"deadline_before": "2026-03-05"}, ["Logo"]),
        ({"q": "motto"}, ["Flyer", "Motto"]),
        ({"sort": "title"}, ["Flyer", "Logo", "Motto"]),
        ({"sort": "-deadline"}, ["Flyer", "Logo", "Motto"]),
        ({"q": "nowhere"}, []),
    ):
        assert titles(page_of(studio.owner, path, **query)) == found, query
    page = page_of(studio.owner, path, sort="title", priority="low")
    assert 'aria-sort="ascending"><a href="?sort=-title&amp;priority=low">' in page
    assert 'aria-sort="none"><a href="?sort=deadline&amp;priority=low">' in page
    assert "No task fits these filters." in page_of(studio.owner, path, q="nowhere")
    assert studio.owner.get(f"{path}?priority=urgent").status_code == 422


def test_groups_have_headings_and_hold_what_belongs_to_several(studio: Studio) -> None:
    column = studio.add_column("To do")
    people = [studio.team.owner.login, studio.team.member.login]
    names = ["Octo", studio.team.member.login]
    studio.add_task(column, "Logo", assignees=people, labels=["print"], deadline="2020-01-01")
    studio.add_task(column, "Flyer")
    path = f"{studio.base}/list"

    def groups(by: str) -> list[tuple[str, list[str]]]:
        page = page_of(studio.owner, path, group=by)
        parts = re.split(r"<h2>(.*?) <span", page)[1:]
        return [(parts[at], titles(parts[at + 1])) for at in range(0, len(parts), 2)]

    assert groups("column") == [("To do", ["Logo", "Flyer"])]
    assert groups("label") == [("print", ["Logo"]), ("Without a label", ["Flyer"])]
    assert groups("deadline") == [("Overdue", ["Logo"]), ("Without a deadline", ["Flyer"])]
    assert groups("person") == [*((each, ["Logo"]) for each in sorted(names, key=str.casefold)), ("Nobody", ["Flyer"])]
    ids = re.findall(r' id="([^"]+)"', page_of(studio.owner, path, group="person"))
    assert len(ids) == len(set(ids))


def test_a_field_is_changed_in_its_row_and_changed_back(studio: Studio) -> None:
    to_do, doing = studio.add_column("To do"), studio.add_column("Doing")
    member = studio.team.member.login
    task = studio.add_task(to_do, "Logo", priority="low", deadline="2026-03-02T15:30:00Z")
    action, back = f"{studio.base}/list/{task}", "?sort=title&group=column"
    changes: tuple[tuple[dict[str, str], str, object], ...] = (
        ({"priority": "high"}, "priority", "high"),
        ({"priority": ""}, "priority", None),
        ({"deadline": "2026-04-01"}, "deadline", "2026-04-01T15:30:00.000Z"),
        ({"deadline": ""}, "deadline", None),
        ({"column_id": doing}, "column", {"id": doing, "title": "Doing"}),
    )
    for fields, name, value in changes:
        before = studio.task(task)[name]
        answer = send(studio.member, action, back=back, **fields)
        assert (answer.status_code, answer.headers["location"]) == (303, f"{studio.base}/list{back}"), answer.text
        assert studio.task(task)[name] == value
        assert undo(studio.member, answer).headers["location"] == f"{studio.base}/list{back}"
        assert studio.task(task)[name] == before
    answer = send(studio.member, action, people="1", **{f"person-{member}": "on"})
    assert [each["login"] for each in studio.task(task)["assignees"]] == [member]
    undo(studio.member, answer)
    assert studio.task(task)["assignees"] == []


def test_a_form_leads_back_to_the_list_alone(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo")
    for back in ("https://evil.example/", "//evil.example", "?a=b\r\nSet-Cookie: a=b", "/settings"):
        answer = send(studio.owner, f"{studio.base}/list/{task}", priority="low", back=back)
        assert answer.status_code == 303
        assert answer.headers["location"].partition("?")[0] == f"{studio.base}/list"
        assert "set-cookie: a" not in str(answer.headers).lower().replace("workhook_note", "")


def test_people_are_chosen_on_a_page_of_their_own(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo", assignees=[studio.team.owner.login])
    page = page_of(studio.member, f"{studio.base}/list/{task}/people", group="7")
    assert f'name="person-{studio.team.owner.login}" checked' in page
    assert f'name="person-{studio.team.member.login}">' in page
    assert f'name="person-{studio.team.client.login}">' in page
    assert f'<turbo-frame id="people-{task}-7">' in page


def test_a_client_changes_only_its_own_and_learns_of_nobody(studio: Studio) -> None:
    column = studio.add_column("To do")
    task = studio.add_task(column, "Logo", assignees=[studio.team.member.login])
    page = page_of(studio.client, f"{studio.base}/list")
    assert titles(page) == ["Logo"]
    assert f"/list/{task}" not in page, "no form and no choice of people"
    assert "data-live-url-value" not in page
    assert f"<option>{studio.team.owner.login}</option>" not in page
    refused = send(studio.client, f"{studio.base}/list/{task}", priority="high")
    assert refused.status_code == 403
    assert studio.task(task)["priority"] is None


def test_a_task_of_another_project_is_not_there(server: Server, studio: Studio) -> None:
    with open_studio(server) as other:
        task = other.add_task(other.add_column("To do"), "Secret plan")
        for answer in (
            send(studio.owner, f"{studio.base}/list/{task}", priority="high"),
            studio.owner.get(f"{studio.base}/list/{task}/people"),
            studio.owner.get(f"{other.base}/list"),
            studio.owner.get(f"{other.base}/list.csv"),
        ):
            assert answer.status_code == 404
            assert "Secret plan" not in answer.text
        assert other.task(task)["priority"] is None


def test_the_table_holds_all_that_fits_and_no_formula(studio: Studio) -> None:
    column = studio.add_column("To do")
    studio.add_task(column, "=HYPERLINK(1)", labels=["+1", "b"], deadline="2026-03-02")
    studio.add_task(column, "Flyer", priority="low")
    answer = studio.member.get(f"{studio.base}/list.csv?priority=&sort=-title")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="website-tasks.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["title"] for row in rows] == ["Flyer", "'=HYPERLINK(1)"]
    assert rows[1]["labels"] == "'+1\nb"
    assert rows[1]["deadline"] == "2026-03-02"
    assert len(list(csv.DictReader(io.StringIO(studio.member.get(f"{studio.base}/list.csv?priority=low").text)))) == 1


def test_the_pages_of_a_long_list_follow_one_another(studio: Studio) -> None:
    column = studio.add_column("To do")
    operations = [{"action": "create", "column_id": column, "title": f"Task {number:03}"} for number in range(60)]
    studio.call("POST", "/tasks/bulk", operations=operations)
    path = f"{studio.base}/list"
    first = page_of(studio.owner, path, sort="title")
    [more] = re.findall(r'href="(\?[^"]*)" rel="next"', first)
    second = page_of(studio.owner, path + more.replace("&amp;", "&"))
    assert titles(first) + titles(second) == [f"Task {number:03}" for number in range(60)]
    assert 'rel="next"' not in second
    assert len(studio.owner.get(f"{path}.csv").text.splitlines()) == 61


def test_hostile_texts_are_texts(studio: Studio) -> None:
    column = studio.add_column(HOSTILE)
    studio.add_task(column, HOSTILE, labels=[HOSTILE])
    for group in ("", "column", "label", "person"):
        page = page_of(studio.owner, f"{studio.base}/list", group=group, q="img", label=HOSTILE)
        assert "<img src=x" not in page
        assert HOSTILE in text_of(page)


def test_an_empty_list_says_what_to_do(studio: Studio) -> None:
    assert "There are no tasks yet. Add the first on the board" in text_of(page_of(studio.owner, f"{studio.base}/list"))


def test_who_only_reads_gets_no_forms(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo")
    studio.call("PATCH", studio.project, archive=True)
    for path in ("", "/list"):
        assert "This project is archived" in text_of(page_of(studio.client, studio.base + path))
    page = page_of(studio.owner, f"{studio.base}/list")
    assert titles(page) == ["Logo"]
    assert f"/list/{task}" not in page


def test_a_label_has_the_colour_of_its_project_on_every_page(studio: Studio) -> None:
    studio.call("PATCH", studio.project, label_colors={"Urgent": "red", "Later": "sky"})
    task = studio.add_task(studio.add_column("To do"), "Logo", labels=["Urgent", "Later"])
    for path in (studio.base, f"{studio.base}/list", f"{studio.base}/tasks/{task}", "/tasks"):
        shown = re.findall(r'chip hue-(\d+)"[^>]*>(?:<span[^>]*>)?(\w+)', page_of(studio.owner, path))
        assert shown == [("0", "Urgent"), ("6", "Later")], path
