"""The board: the facts on its cards, its filters, and the forms for columns and several cards."""

from __future__ import annotations

import html
import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from tests.harness.server import Server
from tests.harness.waiting import WAIT_S
from tests.web.browser import Browser
from tests.web.places_kit import add_in, join, signed_in
from tests.web.studio import HOSTILE, Studio, csrf_of, open_studio, page_of, send, undo
from workhook.core.clock import DAY_MS, now_ms, to_seconds_text

ROUNDS = 5


def card(page: str, task_id: str) -> str:
    """Return the text of a card."""
    found = re.search(rf'<li class="board-card[^"]*" id="{task_id}">(.*?)</li>', page, re.S)
    assert found, page
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", found[1])).split())


def cards(studio: Studio, column: str) -> list[str]:
    """Return the IDs of the cards of a column in order."""
    page = page_of(studio.member, studio.base)  # without the message of the owner's next page
    section = page.partition(f'data-column="{column}"')[2].partition("</ol>")[0]
    return re.findall(r'<li class="board-card[^"]*" id="([^"]+)">', section)


def chosen(*task_ids: str) -> dict[str, str]:
    return {f"card-{each}": "1" for each in task_ids}


def test_a_card_shows_its_facts(studio: Studio) -> None:
    column = studio.add_column("To do")
    task = studio.add_task(
        column,
        HOSTILE,
        labels=["print", HOSTILE],
        priority="high",
        deadline=to_seconds_text(now_ms() - 2 * DAY_MS)[:10],
        assignees=[studio.team.member.login],
        sections={"Steps": {"one": "complete", "two": "incomplete", "size": "A4"}},
    )
    studio.call("POST", f"/tasks/{task}/task_comments", text="For all")
    studio.call("POST", f"/tasks/{task}/task_comments", text="Between us", private=True)
    studio.call("POST", f"{studio.project}/timesheets", task_id=task)
    page = page_of(studio.owner, studio.base)
    assert "<img src=x" not in page
    told = card(page, task)
    for each in (HOSTILE, "print", "High", "Overdue:", "1/2", "Comments: 2", "A timer is running"):
        assert each in told, (each, told)
    for_client = card(page_of(studio.client, studio.base), task)
    assert "Comments: 1" in for_client
    assert "A timer is running" not in for_client


def test_filters_restrict_the_board(studio: Studio) -> None:
    column = studio.add_column("To do")
    late = to_seconds_text(now_ms() - 2 * DAY_MS)[:10]
    first = studio.add_task(column, "Logo", labels=["print"], priority="low", deadline=late)
    second = studio.add_task(column, "Flyer", description="Two für Café", assignees=[studio.team.member.login])
    for query, found in (
        ({"q": "LOG"}, first),
        ({"q": "cafe fur"}, second),
        ({"q": "#1"}, first),
        ({"label": "print"}, first),
        ({"priority": "low"}, first),
        ({"priority": "none"}, second),
        ({"due": "overdue"}, first),
        ({"due": "none"}, second),
        ({"assignee": studio.team.member.login.upper()}, second),
    ):
        page = page_of(studio.owner, studio.base, **query)
        assert re.findall(r'<li class="board-card[^"]*" id="([^"]+)">', page) == [found], query
        assert "1 of 2 cards" in page
        if "due" not in query and query.get("priority") != "none":
            listed = studio.api.get(f"/api/v1/columns/{column}/tasks", params=query).json()["tasks"]
            assert [each["id"] for each in listed] == [found], query
    answer = studio.owner.fill_csrf(f"{studio.base}/tasks/{first}/move", column_id=column, position="1", back="?q=x")
    assert answer.headers["location"] == f"{studio.base}?q=x"


def test_an_empty_board_gets_default_columns(studio: Studio) -> None:
    assert "Create columns: To do, Doing, Done" in page_of(studio.owner, studio.base)
    assert send(studio.owner, f"{studio.base}/columns", template="board").status_code == 303
    made = studio.api.get(f"/api/v1{studio.project}/columns").json()["columns"]
    assert [(each["title"], each["finished"]) for each in made] == [("To do", False), ("Doing", False), ("Done", True)]
    assert "Create columns" not in page_of(studio.client, studio.base)


def test_a_card_is_moved_and_the_move_undone(studio: Studio) -> None:
    one, other = studio.add_column("One"), studio.add_column("Other")
    first, second = (studio.add_task(one, title) for title in "ab")
    answer = send(studio.owner, f"{studio.base}/tasks/{first}/move", column_id=other, position="0")
    assert (cards(studio, one), cards(studio, other)) == ([second], [first])
    undo(studio.owner, answer)
    assert (cards(studio, one), cards(studio, other)) == ([first, second], [])


def test_columns_are_changed_and_the_changes_undone(studio: Studio) -> None:
    one, other = studio.add_column("One"), studio.add_column("Other")
    answer = send(studio.owner, f"{studio.base}/columns/{one}/edit", title=HOSTILE, finished="1")
    shown = studio.call("GET", f"/columns/{one}")["column"]
    assert (shown["title"], shown["finished"], shown["start_timer"]) == (HOSTILE, True, False)
    undo(studio.owner, answer)
    shown = studio.call("GET", f"/columns/{one}")["column"]
    assert (shown["title"], shown["finished"]) == ("One", False)
    answer = send(studio.owner, f"{studio.base}/columns/{one}/place", position="1")
    order = studio.call("GET", f"{studio.project}/columns")["columns"]
    assert [each["id"] for each in order] == [other, one]
    undo(studio.owner, answer)
    order = studio.call("GET", f"{studio.project}/columns")["columns"]
    assert [each["id"] for each in order] == [one, other]


def test_all_cards_of_a_column_are_moved_and_the_move_undone(studio: Studio) -> None:
    one, other = studio.add_column("One"), studio.add_column("Other")
    tasks = [studio.add_task(one, title) for title in "abc"]
    kept = studio.add_task(other, "kept")
    answer = send(studio.owner, f"{studio.base}/columns/{one}/empty", to=other)
    assert (cards(studio, one), cards(studio, other)) == ([], [kept, *tasks])
    undo(studio.owner, answer)
    assert (cards(studio, one), cards(studio, other)) == (tasks, [kept])
    assert send(studio.owner, f"{studio.base}/columns/{one}/empty", to="col_none").status_code == 404


def test_a_deleted_column_is_restored_with_its_cards(studio: Studio) -> None:
    one, other = studio.add_column("One", start_timer=True), studio.add_column("Other")
    tasks = [studio.add_task(one, title) for title in "ab"]
    answer = send(studio.owner, f"{studio.base}/columns/{one}/delete")
    assert cards(studio, other) == tasks
    undo(studio.owner, answer)
    [first, second] = studio.call("GET", f"{studio.project}/columns")["columns"]
    assert (first["title"], first["start_timer"], second["id"]) == ("One", True, other)
    assert (cards(studio, first["id"]), cards(studio, other)) == (tasks, [])


def test_selected_cards_are_changed_together_and_the_changes_undone(studio: Studio) -> None:
    one, other = studio.add_column("One"), studio.add_column("Other")
    tasks = [studio.add_task(one, title, labels=["old"]) for title in "abc"]
    some, login = chosen(tasks[0], tasks[2]), studio.team.member.login

    def bulk(step: str, **fields: str) -> None:
        """Apply the step, check its effect, and undo it."""
        before = [studio.task(each) for each in tasks]
        places = cards(studio, one), cards(studio, other)
        answer = send(studio.owner, f"{studio.base}/board/cards", step=step, **some, **fields)
        assert answer.status_code == 303, answer.text
        changed = cards(studio, one), cards(studio, other)
        if step == "delete":
            assert changed == ([tasks[1]], [])
        else:
            assert [studio.task(each) for each in tasks] != before
        undo(studio.owner, answer)
        assert (cards(studio, one), cards(studio, other)) == places
        names = ("labels", "priority", "title")
        after = [studio.task(each) for each in tasks]
        assert [[each[name] for name in names] for each in after] == [[each[name] for name in names] for each in before]
        assert [each["assignees"] for each in after] == [[]] * 3

    bulk("move", column_id=other)
    bulk("label", label="new")
    bulk("assign", login=login)
    bulk("priority", priority="high")
    bulk("delete")


def test_concurrent_labeling_of_the_same_cards_loses_no_label(studio: Studio) -> None:
    column = studio.add_column("One")
    tasks = [studio.add_task(column, title) for title in "abcdef"]
    key = {browser: csrf_of(browser) for browser in (studio.owner, studio.member)}
    barrier = Barrier(2)

    def label(browser: Browser, name: str) -> None:
        for number in range(ROUNDS):
            fields = {"csrf": key[browser], "step": "label", "label": f"{name}{number}", **chosen(*tasks)}
            barrier.wait(WAIT_S)
            assert browser.post(f"{studio.base}/board/cards", fields).status_code == 303

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(label, studio.owner, "o"), pool.submit(label, studio.member, "m")]:
            done.result()
    wanted = {f"{name}{number}" for name in "om" for number in range(ROUNDS)}
    assert [set(studio.task(each)["labels"]) for each in tasks] == [wanted] * len(tasks)


def test_invalid_changes_of_selected_cards_are_refused(studio: Studio, server: Server) -> None:
    column = studio.add_column("One")
    task = studio.add_task(column, "a")
    path = f"{studio.base}/board/cards"
    assert send(studio.owner, path, step="nothing", **chosen(task)).status_code == 400
    assert send(studio.owner, path, step="label", label=" ", **chosen(task)).status_code == 400
    assert send(studio.owner, path, step="move", column_id="col_none", **chosen(task)).status_code == 422
    assert send(studio.owner, path, step="delete", **chosen("tsk_none")).status_code == 404
    many = chosen(*(f"tsk_{number}" for number in range(201)))
    assert send(studio.owner, path, step="delete", **many).status_code == 400
    assert send(studio.owner, f"{studio.base}/board/places", places="x=y:z").status_code == 400
    assert send(studio.client, path, step="delete", **chosen(task)).status_code == 403
    with open_studio(server) as others:
        assert send(others.owner, path, step="delete", **chosen(task)).status_code == 404
        foreign = others.add_task(others.add_column("Theirs"), "theirs")
        assert send(studio.owner, path, step="delete", **chosen(foreign)).status_code == 404
        assert send(others.owner, f"{others.base}/board/cards", step="delete", **chosen(task)).status_code == 404
    assert cards(studio, column) == [task]


def test_a_reader_is_not_offered_changes_of_the_board(studio: Studio, server: Server) -> None:
    column = studio.add_column("One")
    studio.add_task(column, "a")
    reader = join(server, studio.team.world, add_in(server, studio.team.world, "read"), "read")
    with signed_in(server, reader) as browser:
        page = page_of(browser, studio.base).replace('href="/tasks"', "")  # without the link in the menu
        for form in ("/columns", "/tasks", "/board/cards"):
            assert f'{form}"' not in page, form
    page = page_of(studio.client, studio.base)
    assert 'id="selection"' not in page
    assert f"{column}/edit" not in page
    assert f"{column}/tasks" in page
    for path in ("edit", "delete", "place"):
        fields = {"title": "x", "position": "0"}
        assert send(studio.client, f"{studio.base}/columns/{column}/{path}", **fields).status_code == 403
