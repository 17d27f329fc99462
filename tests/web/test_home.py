"""The start page with the user's own work, and the page of an account, limited to what the user may see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.harness.server import Server
from tests.harness.world import World
from tests.web.browser import Browser, Person, add_link, add_person
from tests.web.places_kit import add_in, join, leave, made, owner_of, signed_in
from workhook.core.clock import DAY_MS, now_ms, to_seconds_text

HOSTILE = "<script>alert(1)</script> \u202e\U0001f419 " + "x" * 200


class Board:
    """A project of an organization, with API access for its owner."""

    def __init__(self, server: Server) -> None:
        self.world: World = server.world()
        self.owner: httpx.Client = server.client(self.world.token)
        self.path = f"/api/v1/projects/{self.world.project_id}"
        self.column = self.add_column("Open")

    def add_column(self, title: str, **more: Any) -> str:
        return str(made(self.owner.post(f"{self.path}/columns", json={"title": title, **more}))["id"])

    def add_task(self, title: str, *people: Person, column: str | None = None, **more: Any) -> str:
        body = {"title": title, "assignees": [each.login for each in people], **more}
        return str(made(self.owner.post(f"/api/v1/columns/{column or self.column}/tasks", json=body))["id"])


@pytest.fixture
def boards(server: Server) -> Iterator[Callable[[], Board]]:
    """Return a function that creates an organization with a board."""
    with ExitStack() as closing:

        def make() -> Board:
            board = Board(server)
            closing.callback(board.owner.close)
            return board

        yield make


@pytest.fixture
def board(boards: Callable[[], Board]) -> Board:
    return boards()


def order(page: str, *titles: str) -> list[str]:
    """Return those titles that are on the page, in the order of the page."""
    return sorted((each for each in titles if each in page), key=page.index)


def test_tasks_are_sorted_by_due_date_and_marked_if_overdue(server: Server, board: Board) -> None:
    person = add_in(server, board.world, "member")
    now = now_ms()
    board.add_task("whenever", person)
    board.add_task("next month", person, deadline=to_seconds_text(now + 30 * DAY_MS))
    board.add_task("last week", person, deadline=to_seconds_text(now - 7 * DAY_MS))
    board.add_task("not mine")
    board.add_task("finished", person, column=board.add_column("Done", finished=True))
    with signed_in(server, person) as browser:
        page = browser.get("/").text
    assert order(page, "whenever", "next month", "last week") == ["last week", "next month", "whenever"]
    assert page.count("Overdue") == 1
    assert page.index("last week") < page.index("Overdue") < page.index("next month")
    assert "not mine" not in page
    assert "finished" not in page


def test_a_task_due_today_is_not_overdue(server: Server, board: Board) -> None:
    person = add_in(server, board.world, "member")
    today = to_seconds_text(now_ms())[:10]
    board.add_task("due today", person, deadline=today)
    with signed_in(server, person) as browser:
        page = browser.get("/").text
    assert "due today" in page
    assert "Overdue" not in page


@pytest.mark.parametrize("place", ["owner", "member", "read", "client"])
def test_each_user_sees_their_visible_tasks(server: Server, boards: Callable[[], Board], place: str) -> None:
    board, other = boards(), boards()
    person = add_in(server, board.world, place)
    board.add_task("mine here", person)
    join(server, other.world, person, "member")
    other.add_task("mine there", person)
    leave(server, other.world, person)  # still assigned, but without access
    with signed_in(server, person) as browser:
        page = browser.get("/").text
        assert "mine here" in page
        assert "mine there" not in page
        assert other.world.organization not in page
        assert f'href="/{board.world.full_name}"' in page
        assert browser.get(f"/{other.world.organization}").status_code == 404
        assert browser.get(f"/{board.world.organization}").status_code == 200


def test_only_a_client_sees_their_unpaid_invoices(server: Server, boards: Callable[[], Board]) -> None:
    board, other = boards(), boards()
    client, member, reader = (add_in(server, board.world, place) for place in ("client", "member", "read"))
    now, numbers = now_ms(), {}
    for name, due in (("later", now + 9 * DAY_MS), ("late", now - 9 * DAY_MS), ("paid", now), ("draft", None)):
        body: dict[str, Any] = {"invoice_items": [{"description": HOSTILE, "qty": 2, "unit_price": 50.25}]}
        body |= {"due": to_seconds_text(due)} if due else {}
        invoice = made(board.owner.post(f"{board.path}/invoices", json=body))["id"]
        if name != "draft":
            numbers[name] = made(board.owner.post(f"/api/v1/invoices/{invoice}/send"))["invoice_number"]
        if name == "paid":
            made(board.owner.post(f"/api/v1/invoices/{invoice}/pay"))
    theirs = made(other.owner.post(f"{other.path}/invoices", json={"invoice_items": []}))["id"]
    join(server, other.world, client, "client")
    with signed_in(server, client) as browser:
        page = browser.get("/").text
        assert order(page, *(f"<bdi>{each}</bdi>" for each in numbers.values())) == [
            f"<bdi>{numbers[each]}</bdi>" for each in ("late", "later")
        ]
        assert page.count("100.50") == 2
        assert page.count("Overdue") == 1
        assert "<h1>My projects</h1>" in page
        assert "Nothing is waiting for you." in page
        assert theirs not in page
        assert "Draft" not in page
        links = [each for each in page.split('"') if each.startswith(f"/{board.world.full_name}/billing/")]
        assert [browser.get(each).status_code for each in links] == [200, 200]
        join(server, board.world, client, "read")  # project staff have nothing to pay
        page = browser.get("/").text
        assert "Unpaid invoices" not in page
        assert "<h1>My work</h1>" in page
    for person in (member, reader):
        with signed_in(server, person) as browser:
            assert "Unpaid invoices" not in browser.get("/").text


def test_tasks_of_archived_and_deleted_projects_are_hidden(server: Server, board: Board) -> None:
    person = add_in(server, board.world, "member")
    board.add_task("mine here", person)
    board.owner.patch(board.path, json={"archive": True})
    with signed_in(server, person) as browser:
        assert "mine here" not in browser.get("/").text
        board.owner.patch(board.path, json={"archive": False})
        assert "mine here" in browser.get("/").text
        board.owner.delete(board.path)
        page = browser.get("/").text
        assert "mine here" not in page
        assert "You have no projects yet." in page


def test_a_running_timer_is_shown_only_to_its_user(server: Server, board: Board) -> None:
    member = add_in(server, board.world, "member")
    task = board.add_task("the clock ticks")
    made(board.owner.post(f"{board.path}/timesheets", json={"task_id": task}))
    with signed_in(server, member) as browser:
        assert "Running timer" not in browser.get("/").text
    with Browser(server) as browser:
        browser.fill(add_link(server, owner_of(server, board.world)))
        page = browser.get("/").text
        assert "Running timer" in page
        assert "the clock ticks" in page


def test_a_new_user_is_offered_to_create_a_project(server: Server) -> None:
    person = add_person(server)
    with signed_in(server, person) as browser:
        page = browser.get("/").text
        assert "No tasks are assigned to you." in page
        assert f'href="/{person.login}"' in page
        answer = browser.fill(f"/{person.login}", title="My first", template="board")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/{person.login}/my-first")
        board = browser.get(answer.headers["location"]).text
        assert order(board, "To do", "Doing", "Done") == ["To do", "Doing", "Done"]
        assert "My first" in browser.get("/").text


def test_a_new_project_is_offered_to_members_only(server: Server, boards: Callable[[], Board]) -> None:
    first, second = boards(), boards()
    member, client = add_in(server, first.world, "member"), add_in(server, first.world, "client")
    offer = f'href="/{first.world.organization}#new-title"'
    with signed_in(server, member) as browser:
        page = browser.get("/").text
        assert offer in page
        assert 'href="#new-title"' in browser.get(f"/{first.world.organization}").text
        assert second.world.organization not in page
    with signed_in(server, client) as browser:
        assert "#new-title" not in browser.get("/").text
        assert "#new-title" not in browser.get(f"/{first.world.organization}").text


def test_titles_are_escaped(server: Server, board: Board) -> None:
    person = add_in(server, board.world, "member")
    board.add_task(HOSTILE, person)
    board.owner.patch(board.path, json={"title": HOSTILE})
    with signed_in(server, person) as browser:
        for path in ("/", f"/{board.world.organization}"):
            page = browser.get(path).text
            assert "<script>alert" not in page
            assert "&lt;script&gt;alert(1)" in page
    with signed_in(server, person) as browser:
        answer = browser.fill(f"/{board.world.organization}", title="<b>" + "y" * 253, template="")
        assert answer.status_code == 422
        assert "<b>yyy" not in answer.text


def test_an_account_shows_only_what_the_visitor_may_see(server: Server, board: Board) -> None:
    path = f"/{board.world.organization}"
    secret = {"title": "Secret plans", "organization": board.world.organization, "private": True}
    made(board.owner.post("/api/v1/projects", json=secret))
    old = made(board.owner.post("/api/v1/projects", json={"title": "Old", "organization": board.world.organization}))
    board.owner.patch(f"/api/v1/projects/{old['id']}", json={"archive": True})
    owner, member, client = (add_in(server, board.world, place) for place in ("owner", "member", "client"))
    with signed_in(server, owner) as browser:
        page = browser.get(path).text
        assert order(page, "Secret plans", "Website", "Old") == ["Secret plans", "Website", "Old"]
        assert "1 archived project" in page
        assert member.login in page
        assert client.login not in page  # a client is not a member
    with signed_in(server, member) as browser:
        page = browser.get(path).text
        assert "Secret plans" not in page
        assert "Website" in page
        assert owner.login in page
        assert browser.fill(path, title="Public", template="").headers["location"] == f"{path}/public"
    with signed_in(server, client) as browser:
        page = browser.get(path).text
        assert "Website" in page
        for hidden in ("Secret plans", "Old", "Public", member.login, owner.login, 'name="title"'):
            assert hidden not in page, hidden
        csrf = browser.form("/", "/logout").fields["csrf"]
        assert browser.post(path, {"csrf": csrf, "title": "Mine", "template": ""}).status_code == 404
        assert browser.get(f"/{owner.login}").status_code == 404
    with signed_in(server, add_person(server)) as browser:
        assert browser.get(path).status_code == 404
        assert browser.get("/nobody-is-called-so").status_code == 404
        csrf = browser.form("/", "/logout").fields["csrf"]
        assert browser.post(path, {"csrf": csrf, "title": "Mine", "template": ""}).status_code == 404


def test_a_project_is_created_completely_or_not_at_all(server: Server, board: Board) -> None:
    path = f"/{board.world.organization}"
    with signed_in(server, add_in(server, board.world, "member")) as browser:
        assert browser.fill(path, title="Half", template="of another page").status_code == 404
        assert browser.fill(path, title=" ", template="board").status_code == 422
        assert "Half" not in browser.get(path).text
        answer = browser.fill(path, title="Quiet", template="", private="on")
        assert answer.headers["location"] == f"{path}/quiet"
    with signed_in(server, add_in(server, board.world, "member")) as browser:
        assert browser.get(f"{path}/quiet").status_code == 404
