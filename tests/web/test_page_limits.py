"""Rate limits for pages, and limits on their size."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.browser.people import make_team
from tests.harness.server import Server
from tests.web.browser import Browser
from tests.web.studio import open_studio, page_of
from workhook.identity.rate import ADDRESS_TIMES
from workhook.web.frame.paging import TEXTS_MAX_CHARS
from workhook.work.board.tasks.listing import LABELS_MAX

pytestmark = pytest.mark.one_database
LIMIT = 12


def test_pages_are_limited_per_address(new_server: Callable[..., Server]) -> None:
    server = new_server(page_rate_limit=str(LIMIT))
    with Browser(server) as browser:
        answers = [browser.get("/docs/search?q=webhook") for _ in range(LIMIT * ADDRESS_TIMES + 1)]
        assert {each.status_code for each in answers[:-1]} == {200}
        assert answers[-1].status_code == 429
        assert 0 < int(answers[-1].headers["retry-after"]) <= 3600
        assert browser.get("/login").status_code == 429


def test_pages_are_limited_per_user(new_server: Callable[..., Server]) -> None:
    server = new_server(page_rate_limit=str(LIMIT))
    team = server.run(make_team)
    with Browser.of(server, team.world.owner) as browser:
        codes = [browser.get("/settings/tokens").status_code for _ in range(LIMIT + 2)]
        assert codes[0] == 200
        assert codes[-1] == 429
        assert browser.get("/docs").status_code == 200, "others at this address go on"


def test_assets_do_not_count(new_server: Callable[..., Server]) -> None:
    server = new_server(page_rate_limit="1")
    with Browser(server) as browser:
        codes = {browser.get("/static/missing.css").status_code for _ in range(ADDRESS_TIMES + 5)}
        assert 429 not in codes


def test_a_search_with_many_words_is_limited(server: Server) -> None:
    with Browser(server) as browser:
        assert browser.get("/docs/search?q=" + "+".join(f"w{each}" for each in range(60))).status_code == 200


def test_a_board_offers_a_limited_number_of_labels(server: Server) -> None:
    with open_studio(server) as studio:
        column = studio.add_column("To do")
        for number in range(12):
            task = studio.add_task(column, f"Task {number}")
            studio.call("PATCH", f"/tasks/{task}", labels=[f"{number}-{each}-{'x' * 240}" for each in range(100)])
        page = page_of(studio.member, studio.base)
        assert page.count("<option") < 3 * LABELS_MAX
        assert len(page) < 400_000
        chosen = f"0-0-{'x' * 240}"
        assert f'name="label" value="{chosen}"' in page_of(studio.member, studio.base, label=chosen)


def test_long_texts_are_paginated(server: Server) -> None:
    text = "word " * 13_000
    with open_studio(server) as studio:
        task = studio.add_task(studio.add_column("To do"), "Long")
        sent = studio.api.post(f"/api/v1{studio.project}/files", files={"file": ("long.txt", b"long")})
        file, day = sent.json()["file"]["id"], datetime.now(UTC).date()
        for _ in range(12):
            studio.call("POST", f"/tasks/{task}/task_comments", text=text)
            studio.call("POST", f"/files/{file}/file_comments", text=text)
            entry = {"task_id": task, "start_time": f"{day}T00:00:00Z", "duration": 1_000, "notes": text}
            studio.call("POST", f"{studio.project}/timesheets", **entry)
            studio.call("POST", f"{studio.project}/task_credits", amount=1, notes=text)
        for place in (f"/tasks/{task}", f"/files/{file}"):
            page = page_of(studio.member, studio.base + place)
            [later] = re.findall(r'href="([^"]+\?after=\d+)[^"]*"[^>]*>Newer comments', page)
            pages = [page, page_of(studio.member, later)]
            assert max(map(len, pages)) < 3 * TEXTS_MAX_CHARS
            comments = [each for one in pages for each in re.findall(r'id="comment-(\d+)"', one)]
            assert len(set(comments)) == len(comments) == 12, "each is on one of the pages"
        for address in ("/time", f"{studio.base}/time", f"{studio.base}/billing/credits"):
            assert len(page_of(studio.owner, address)) < 100_000
