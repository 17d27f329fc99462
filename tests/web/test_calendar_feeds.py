"""Calendar feeds for other programs: who creates their address, what they contain, and when they end."""

from __future__ import annotations

import hashlib
import re
from datetime import date, datetime

import httpx
import icalendar
import sqlalchemy as sa

from tests.harness.server import Server
from tests.web.browser import Browser
from tests.web.places_kit import age_sign_in, leave
from tests.web.studio import HOSTILE, Studio, csrf_of, open_studio, page_of, send
from workhook.core.clock import DAY_MS, now_ms, to_millis_text
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.storage.metadata import bigint_param
from workhook.work.history.feeds import REQUESTS_MAX, calendar_feeds

_digests = sa.select(calendar_feeds.c.digest).where(calendar_feeds.c.user_id == bigint_param("user_id"))
DAY = now_ms() // DAY_MS * DAY_MS
SOON, LATER = to_millis_text(DAY + 3 * DAY_MS), to_millis_text(DAY + 4 * DAY_MS + 15 * 3_600_000)


def feed_page(studio: Studio) -> str:
    return f"{studio.base}/calendar/feed"


def address_of(studio: Studio, browser: Browser, which: str = "project") -> str:
    """Create the address of a feed, which its page shows only once."""
    made = send(browser, f"{feed_page(studio)}/renew", feed=which)
    assert made.status_code == 200, made.text
    [address] = re.findall(r'<code id="address"[^>]*>([^<]*)</code>', made.text)
    assert "content-encoding" not in made.headers, "the page shows a secret"
    return str(address)


def titles(address: str) -> list[str]:
    return [str(each["SUMMARY"]) for each in read(address).events]


def read(address: str) -> icalendar.Calendar:
    answer = httpx.get(address)
    assert answer.status_code == 200, answer.text
    calendar = icalendar.Calendar.from_ical(answer.content)
    assert isinstance(calendar, icalendar.Calendar)
    return calendar


def test_a_project_feed_contains_open_deadlines(studio: Studio) -> None:
    column, done = studio.add_column("To do"), studio.add_column("Done", stage="done")
    whole = studio.add_task(column, "Whole day", deadline=SOON)
    hostile = studio.add_task(column, f"{HOSTILE}, a; b\\n {'ü' * 150}", deadline=LATER)
    studio.add_task(column, "Never")
    studio.add_task(column, "Long ago", deadline="2020-01-01")
    studio.add_task(done, "Finished", deadline=SOON)
    gone = studio.add_task(column, "Deleted", deadline=SOON)
    studio.call("DELETE", f"/tasks/{gone}")
    calendar = read(address_of(studio, studio.member))
    first, second = calendar.events
    assert (first["UID"], second["UID"]) == (f"{whole}@workhook", f"{hostile}@workhook")
    assert str(second["SUMMARY"]) == studio.task(hostile)["title"]
    assert (first.start, second.start) == (date.fromisoformat(SOON[:10]), datetime.fromisoformat(LATER))
    assert str(first["URL"]).endswith(f"{studio.base}/tasks/{whole}")
    assert titles(address_of(studio, studio.client)) == [str(each["SUMMARY"]) for each in calendar.events]


def test_a_personal_feed_contains_assigned_tasks_of_all_projects(studio: Studio) -> None:
    member = studio.team.member.login
    column = studio.add_column("To do")
    studio.add_task(column, "Mine", deadline=SOON, assignees=[member])
    studio.add_task(column, "Another's", deadline=SOON)
    second = studio.call("POST", "/projects", title="Second", organization=studio.team.world.organization)["project"]
    other = studio.call("POST", f"/projects/{second['id']}/columns", title="To do")["column"]["id"]
    studio.add_task(other, "Mine elsewhere", deadline=LATER, assignees=[member])
    address = address_of(studio, studio.member, "assigned")
    assert titles(address) == ["Mine", "Mine elsewhere"]
    studio.call("PATCH", f"/projects/{second['id']}", archive=True)
    assert titles(address) == ["Mine"]


def test_an_unchanged_feed_is_not_sent_again(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo", deadline=SOON)
    address = address_of(studio, studio.member)
    first = httpx.get(address)
    assert first.headers["content-type"] == "text/calendar; charset=utf-8"
    assert first.headers["cache-control"] == "private, no-cache"
    again = httpx.get(address, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    studio.call("PATCH", f"/tasks/{task}", title="Logo, new")
    after = httpx.get(address, headers={"If-None-Match": first.headers["etag"]})
    assert (after.status_code, b"Logo\\, new" in after.content) == (200, True)


def test_an_address_is_shown_once_and_ends_when_renewed_or_turned_off(server: Server, studio: Studio) -> None:
    place = feed_page(studio)
    assert f'href="{place}"' in page_of(studio.member, f"{studio.base}/calendar")
    assert "Create link" in page_of(studio.member, place)
    first = address_of(studio, studio.member)
    key = first.split("/")[-2]
    assert key not in page_of(studio.member, place)
    assert digests_of(server, studio.team.member.id) == [hashlib.sha256(key.encode()).digest()]
    second = address_of(studio, studio.member)
    assert (httpx.get(first).status_code, httpx.get(second).status_code) == (404, 200)
    ended = send(studio.member, f"{place}/end", feed="project")
    assert "was turned off" in studio.member.get(ended.headers["location"]).text
    assert httpx.get(second).status_code == 404
    nothing = send(studio.member, f"{place}/end", feed="project")
    assert "was turned off" not in studio.member.get(nothing.headers["location"]).text
    assert send(studio.member, f"{place}/renew", feed="everything").status_code == 404
    for wrong in ("x", "x" * 43, "%00", "\u202e" * 43):
        assert httpx.get(f"{server.url}/calendar/{wrong}/calendar.ics").status_code == 404


def digests_of(server: Server, user_id: int) -> list[bytes]:
    async def run(services: Services) -> list[bytes]:
        found = await services.database.fetch_all(_digests, {"user_id": user_id})
        return [bytes(each["digest"]) for each in found]

    found: list[bytes] = server.run(run)
    return found


def test_a_feed_ends_when_its_user_loses_access(server: Server, studio: Studio) -> None:
    studio.add_task(studio.add_column("To do"), "Logo", deadline=SOON, assignees=[studio.team.member.login])
    project, assigned = address_of(studio, studio.member), address_of(studio, studio.member, "assigned")
    others = address_of(studio, studio.client)
    leave(server, studio.team.world, studio.team.member)
    assert httpx.get(project).status_code == 404
    assert titles(assigned) == []
    assert titles(others) == ["Logo"]

    async def disable(services: Services) -> None:
        async with services.database.transaction() as tx:
            user = await queries.find_account(tx, studio.team.client.login)
            assert user is not None
            await actions.disable(tx, user, base="")

    server.run(disable)
    assert httpx.get(others).status_code == 404


def test_creating_an_address_needs_a_recent_sign_in(server: Server, studio: Studio) -> None:
    csrf = csrf_of(studio.member)
    age_sign_in(server, studio.team.member)
    asked = studio.member.post(f"{feed_page(studio)}/renew", {"csrf": csrf, "feed": "project"})
    assert asked.headers["location"].startswith("/login/confirm?return_to=")


def test_another_tenant_cannot_see_the_calendar(server: Server, studio: Studio) -> None:
    studio.add_task(studio.add_column("To do"), "Ours", deadline=SOON)
    with open_studio(server) as other:
        other.add_task(other.add_column("To do"), "Theirs", deadline=SOON)
        for browser in (other.owner, other.client):
            assert browser.get(feed_page(studio)).status_code == 404
            assert send(browser, f"{feed_page(studio)}/renew", feed="project").status_code == 404
        ours, theirs = address_of(studio, studio.owner), address_of(other, other.owner)
        assert (titles(ours), titles(theirs)) == (["Ours"], ["Theirs"])
        send(other.owner, f"{feed_page(other)}/end", feed="project")
        assert (httpx.get(theirs).status_code, titles(ours)) == (404, ["Ours"])


def test_a_feed_has_a_rate_limit(studio: Studio) -> None:
    address = address_of(studio, studio.member)
    with httpx.Client() as client:
        answers = [client.get(address) for _ in range(REQUESTS_MAX + 1)]
    assert {each.status_code for each in answers[:-1]} == {200}
    assert (answers[-1].status_code, int(answers[-1].headers["retry-after"]) > 0) == (429, True)
    assert titles(address_of(studio, studio.owner)) == []
