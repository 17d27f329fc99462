"""Every page that links lead to, as owner, member and client: on a touch tablet and on paper in Chromium, and in
Firefox. Also every page of an empty project on a phone."""

from __future__ import annotations

import json
import subprocess
from collections import Counter

import pytest
from playwright.async_api import Page

from tests.browser.checks import accessible, fits, printed, roomy
from tests.browser.visits import Scheme, Visits
from tests.harness.debian import program
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.node_tools import NODE_FOLDER, ensure_node_modules, node
from tests.web.browser import Browser
from tests.web.studio import Studio
from tests.web.test_client_portal import plant, walk
from workhook.asgi import described
from workhook.http.operations import Operation

FIREFOX_S = 300
OF_ONE_OPERATION_MAX = 3
"""Addresses visited per operation. One may be a redirect or a file, and one may have links that another lacks."""
_SCHEMES: dict[str, Scheme] = {"owner": "light", "member": "dark", "client": "dark"}


def fill(server: Server, studio: Studio, receiver: Receiver) -> None:
    """Create an object of each kind that has a page."""
    plant(server, studio)
    column = studio.call("GET", f"{studio.project}/columns")["columns"][0]["id"]
    task = studio.add_task(column, "Billed")
    spent = studio.call(
        "POST", f"{studio.project}/timesheets", task_id=task, duration=3600, billable=True, billable_rate=80
    )["timesheet"]["id"]
    studio.call("POST", f"{studio.project}/invoices", timesheet_ids=[spent])
    hooks = f"{studio.team.world.repo_path}/hooks"
    hook = studio.api.post(hooks, json={"config": {"url": receiver.url, "content_type": "json"}})
    assert hook.is_success, hook.text
    org, number = studio.team.world.org_path, studio.team.owner.id
    for part, kind in (("oauth-apps", "Report"), ("apps", "Robot")):
        body = {"name": f"{kind} {number}", "callback_urls": ["https://client.example"]}
        studio.api.post(f"{org}/{part}", json=body).raise_for_status()
    studio.api.post(f"{org}/installations", json={"app": f"robot-{number}"}).raise_for_status()
    until(lambda: bool(studio.api.get(f"{hooks}/{hook.json()['id']}/deliveries").json()))


def pages_for(browser: Browser) -> list[str]:
    """Return one address of each page that links lead to from the start."""
    found: dict[str, str] = {}
    asked = Counter[str]()

    def is_wanted(address: str) -> bool:
        operation = _operation_of(address)
        if operation is None or operation.path.startswith("/static/"):
            return False
        asked[operation.path] += 1
        return asked[operation.path] <= OF_ONE_OPERATION_MAX

    for address, answer in walk(browser, is_wanted=is_wanted).items():
        operation = _operation_of(address)
        if (
            operation is not None
            and answer.status_code == 200
            and answer.headers["content-type"].startswith("text/html")
        ):
            found.setdefault(operation.path, address)
    return list(found.values())


def _operation_of(address: str) -> Operation | None:
    """Return the operation that serves the address. If several match, it is the one with the fewest path parameters."""
    parts = address.partition("?")[0].split("/")
    fitting = [
        each
        for each in described()
        if each.method == "GET"
        and len(names := each.path.split("/")) == len(parts)
        and all(name.startswith("{") or name == part for name, part in zip(names, parts, strict=True))
    ]
    return min(fitting, key=lambda each: each.path.count("{"), default=None)


@pytest.mark.whole
@pytest.mark.variants("role")
@pytest.mark.parametrize("role", ["owner", "member", "client"])
async def test_every_page_works_on_a_tablet(
    visit: Visits, server: Server, studio: Studio, receiver: Receiver, role: str
) -> None:
    fill(server, studio, receiver)
    addresses = pages_for(getattr(studio, role))
    assert len(addresses) > (8 if role == "client" else 20), addresses
    person = studio.team.everybody[role]
    page = await visit("/", person, width=768, scheme=_SCHEMES[role], touch=True)
    faults = [fault for each in addresses if (fault := await _fault_of(page, each))]
    assert not faults, "\n\n".join(faults)


@pytest.mark.whole
async def test_every_page_of_an_empty_project_works_on_a_phone(visit: Visits, studio: Studio) -> None:
    addresses = [
        *pages_for(studio.owner),
        f"{studio.base}/calendar?month=2031-02",
        f"{studio.base}/time?week=2031-02-03",
    ]
    assert len(addresses) > 20, addresses
    page = await visit("/", studio.team.owner, width=390, scheme="dark", touch=True, is_mobile=True)
    faults = [fault for each in addresses if (fault := await _fault_of(page, each))]
    assert not faults, "\n\n".join(faults)


async def _fault_of(page: Page, address: str) -> str | None:
    await page.goto(address)
    try:
        await fits(page)
        await roomy(page)
        await accessible(page, both_schemes=False)  # the tests of each area check both
        await printed(page)
    except AssertionError as error:
        return str(error)
    return None


@pytest.mark.whole
def test_every_page_works_in_firefox(server: Server, studio: Studio, receiver: Receiver) -> None:
    firefox = program("firefox-esr", "firefox-esr")
    fill(server, studio, receiver)
    columns = [studio.add_column(title) for title in ("From", "To")]
    task = studio.add_task(columns[0], "Moved in Firefox")
    given = {
        "program": firefox.path,
        "environment": firefox.environment,
        "origin": server.url,
        "cookies": [
            {"name": each.name, "value": each.value, "domain": "127.0.0.1", "path": each.path}
            for each in studio.owner.client.cookies.jar
        ],
        "addresses": pages_for(studio.owner),
        "widths": [360, 1440],
        "board": studio.base,
        "task": task,
        "columns": columns,
    }
    ensure_node_modules()
    done = subprocess.run(
        [str(node()), str(NODE_FOLDER / "firefox.mjs")],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=FIREFOX_S,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert not told["trouble"], "\n".join(told["trouble"])
    assert told["visited"] == len(given["addresses"]) > 20
