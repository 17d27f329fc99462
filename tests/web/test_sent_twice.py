"""Forms that create or book something, submitted twice by a double click, by going back, or by a browser that retries.
They take effect once, and the second answer equals the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx
import pytest
import sqlalchemy as sa

from tests.harness.server import Server
from tests.web.browser import Browser, forms
from tests.web.studio import Studio, open_studio, text_of
from workhook.asgi import described
from workhook.core.clock import now_ms
from workhook.http.calls import Services
from workhook.http.operations import PLACES
from workhook.identity.tables import sent_forms
from workhook.identity.tokens import issue
from workhook.storage.metadata import metadata
from workhook.web.frame.cookies import masked, unmasked

_BESIDE = {
    "deliveries", "dispatches", "lanes", "mail_messages", "probe", "rate_windows", "timesheet_changes",
    "timesheet_sums", "worker_generation", "workers",
}  # fmt: skip
"""Tables that change in the background."""
TABLES = [each for each in metadata.sorted_tables if each.name not in _BESIDE]

CHANGES = {each.path: each for each in described() if each.area is PLACES and each.method == "POST"}

# Repeating these has no further effect, or is intended, such as sending again or creating another link.
NOT_ONCE = (
    "/by-apps", "/delete", "/remove", "/revoke", "/end", "/renew", "/link", "/edit", "/rename", "/place", "/empty",
    "/move", "/read", "/restore", "/cancel", "/decline", "/accept", "/disable", "/enable", "/role", "/first",
    "/pause", "/resume", "/void", "/archive", "/active", "/suspended", "/permissions", "/repositories", "/uninstall",
    "/filters", "/cards", "/places", "/tick", "/labels", "/assignees", "/checklist", "/waits", "/preview", "/sight",
    "/task", "/grouping", "/address", "/confirm", "/again", "/settings", "/profile", "/appearance", "/notifications",
    "/billing", "/logo", "/export", "/installations", "/secret", "/ping", "/test", "/redeliver", "/redeliveries",
    "/receiver", "/import", "/revoke-tokens", "/welcome", "/confirm/{token}", "/calendar/{task_id}",
    "/list/{task_id}", "/timesheets/{timesheet_id}/{step}", "/lines/{number}", "/services/{service_id}",
    "/webhooks/{hook_id}", "/apps/{slug}", "/oauth-apps/{client_id}", "/trash/{kind}/{deleted_id}", "/finish",
    "/settings/clients",
)  # fmt: skip


class Sent(NamedTuple):
    """A form to submit: posts to `action`, is on `page` (if any), and has `fields` filled in."""

    page: str
    action: str
    fields: Mapping[str, str] = MappingProxyType({})
    files: dict[str, Any] | None = None


class Ground:
    """A project with everything that the forms need."""

    def __init__(self, studio: Studio) -> None:
        self.studio, self.base = studio, studio.base
        self.owner = f"/{studio.team.world.organization}"
        call, project = studio.call, studio.project
        today = datetime.now(UTC).date()
        self.since, self.until = str(today - timedelta(days=9)), str(today + timedelta(days=1))
        self.column = studio.add_column("To do")
        self.own_task = self.task_id()
        self.task = f"{self.base}/tasks/{self.own_task}"
        items = [{"description": "Design", "qty": 1, "unit_price": 100}]
        body = {"currency": "EUR", "tax": 20, "invoice_items": items}
        self.draft = str(call("POST", f"{project}/invoices", **body)["invoice"]["id"])
        self.invoice = str(call("POST", f"{project}/invoices", **body)["invoice"]["id"])
        call("POST", f"/invoices/{self.invoice}/send")
        paid = call("POST", f"/invoices/{self.invoice}/payments", amount=50)
        self.payment = str(paid["payment"]["id"])
        prices = [{"amount": 10, "currency": "EUR", "interval": "month"}]
        body = {"title": "Care", "organization": studio.team.world.organization, "service_prices": prices}
        self.service = str(call("POST", "/services", **body)["service"]["id"])
        made = call("POST", f"{project}/service_checkouts", service_id=self.service)
        self.checkout = str(made["service_checkout"]["id"])
        self.credit = str(call("POST", f"{project}/task_credits", kind="grant", amount=5)["task_credit"]["id"])
        sheet = {"task_id": self.task_id(), "duration": 3_600_000, "billable": True, "billable_rate": 90}
        self.sheet = str(call("POST", f"{project}/timesheets", **sheet)["timesheet"]["id"])
        given = {"file": ("a.txt", b"words", "text/plain")}
        file = studio.api.post(f"/api/v1{project}/files", files=given)
        assert file.is_success, file.text
        self.file = f"{self.base}/files/{file.json()['file']['id']}"
        path = f"/files/{file.json()['file']['id']}/file_comments"
        self.comment = str(call("POST", path, text="So it is")["id"])
        self.app = self._app()

    def task_id(self) -> str:
        return self.studio.add_task(self.column, "Draw the page")

    def _app(self) -> str:
        body = {"name": f"App of {self.task[-12:]}"}
        answer = self.studio.api.post(f"/orgs/{self.studio.team.world.organization}/apps", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["slug"])

    def billing(self, path: str = "") -> str:
        return f"{self.base}/billing{path}"


def _case(page: str, action: str | None = None, **fields: str) -> Callable[[Ground], Sent]:
    """Return a case whose addresses contain attributes of `Ground` in braces."""

    def make(ground: Ground) -> Sent:
        names = {name: value for name, value in vars(ground).items() if isinstance(value, str)}
        there = {name: value.format_map(names) for name, value in fields.items()}
        return Sent(page.format_map(names), (action or page).format_map(names), there)

    return make


_INVOICE, _DRAFT = "{base}/billing/{invoice}", "{base}/billing/{draft}"
_SETTINGS = "{base}/settings"
_HOOK = {"url": "https://example.com/a", "content_type": "json", "secret_kind": "make", "which": "all"}
_APP = "{owner}/settings/apps/{app}"
_CREDITS = "{base}/billing/credits"
CASES: dict[str, Callable[[Ground], Sent]] = {
    "/{owner}": _case("{owner}", title="Another project"),
    "/{owner}/people": _case("{owner}/people", who="someone@example.com", role="member"),
    "/{owner}/-/services/new": _case("{owner}/-/services/new", title="Hosting"),
    "/{owner}/-/services/{service_id}/prices": _case(
        "{owner}/-/services/{service}", "{owner}/-/services/{service}/prices", amount="7", currency="EUR",
        interval="year",
    ),
    "/{owner}/-/webhooks": _case("", "{owner}/-/webhooks", **_HOOK),
    "/{owner}/{project}/webhooks": _case("", "{base}/webhooks", **_HOOK),
    "/{owner}/settings/new-oauth-app": _case("{owner}/settings/new-oauth-app", name="Reader of forms", callback_urls="https://example.com/back"),
    "/{owner}/settings/new-app": _case("{owner}/settings/new-app", name="Writer of forms"),
    "/{owner}/settings/apps/{slug}/secrets": _case(_APP, _APP + "/secrets"),
    "/{owner}/settings/apps/{slug}/keys": _case(_APP, _APP + "/keys"),
    "/{owner}/{project}/settings/people": _case(_SETTINGS, _SETTINGS + "/people", who="a@example.com", role="write"),
    "/{owner}/{project}/settings/clients/invite": _case("", _SETTINGS + "/clients/invite", email="c@example.com"),
    "/{owner}/{project}/columns": _case(_BOARD := "{base}", "{base}/columns", title="Doing"),
    "/{owner}/{project}/columns/{column_id}/tasks": _case(_BOARD, "{base}/columns/{column}/tasks", title="Draw"),
    "/{owner}/{project}/board/column": _case("", "{base}/board/column", title="Gone", position="1"),
    "/{owner}/{project}/webhooks/receiver/card": _case("", "{base}/webhooks/receiver/card"),
    "/{owner}/{project}/tasks/{task_id}/comments": _case("{task}", "{task}/comments", text="Well done"),
    "/{owner}/{project}/tasks/{task_id}/subtasks": _case("{task}", "{task}/subtasks", title="A part"),
    "/{owner}/{project}/tasks/{task_id}/duplicate": _case("{task}", "{task}/duplicate"),
    "/{owner}/{project}/tasks/{task_id}/timer": _case("{task}", "{task}/timer"),
    "/{owner}/{project}/folders": _case("{base}/files", "{base}/folders", title="Drafts"),
    "/{owner}/{project}/files": lambda ground: Sent(
        "", f"{ground.base}/files", files={"file": ("b.txt", b"more", "text/plain")}
    ),
    "/{owner}/{project}/files/{file_id}/comments": _case("{file}", "{file}/comments", text="Is it?"),
    "/{owner}/{project}/files/{file_id}/comments/{comment_id}/replies": _case(
        "{file}", "{file}/comments/{comment}/replies", body="It is"
    ),
    "/{owner}/{project}/billing/new": _case("{base}/billing/new"),
    "/{owner}/{project}/billing/{invoice_id}/lines": _case(
        _DRAFT, _DRAFT + "/lines", description="Paper", qty="2", unit_price="3"
    ),
    "/{owner}/{project}/billing/{invoice_id}/times": _case("", _DRAFT + "/times", timesheet_ids="{sheet}"),
    "/{owner}/{project}/billing/{invoice_id}/unbilled": _case(_DRAFT, _DRAFT + "/unbilled"),
    "/{owner}/{project}/billing/{invoice_id}/send": _case(_DRAFT, _DRAFT + "/send"),
    "/{owner}/{project}/billing/{invoice_id}/payments": _case(_INVOICE, _INVOICE + "/payments", amount="10"),
    "/{owner}/{project}/billing/{invoice_id}/payments/{payment_id}/refund": _case(
        _INVOICE, _INVOICE + "/payments/{payment}/refund", amount="5"
    ),
    "/{owner}/{project}/billing/{invoice_id}/credit_notes": _case(
        _INVOICE, _INVOICE + "/credit_notes", total="10", reason="Late"
    ),
    "/{owner}/{project}/billing/subscriptions/new": _case("", "{base}/billing/subscriptions/new", service="{service}"),
    "/{owner}/{project}/billing/subscriptions/{checkout_id}/start": _case(
        "{base}/billing/subscriptions/{checkout}", "{base}/billing/subscriptions/{checkout}/start"
    ),
    "/{owner}/{project}/billing/credits/grant": _case(_CREDITS, _CREDITS + "/grant", amount="3"),
    "/{owner}/{project}/billing/credits/spend": lambda ground: Sent(
        _CREDITS.format(base=ground.base), f"{_CREDITS.format(base=ground.base)}/spend",
        {"amount": "1", "task_id": ground.own_task},
    ),
    "/{owner}/{project}/billing/credits/{entry_id}/reverse": _case(_CREDITS, _CREDITS + "/{credit}/reverse"),
    "/{owner}/{project}/time/entries": lambda ground: Sent(
        "", f"{ground.base}/time/entries", {"duration": "1:00", "start": "2026-11-02T09:00", "task_id": ground.own_task}
    ),
    "/{owner}/{project}/time/start": lambda ground: Sent(
        "", f"{ground.base}/time/start", {"task_id": ground.own_task}
    ),
    "/{owner}/{project}/time/restore": lambda ground: Sent(
        "", f"{ground.base}/time/restore", {"task_id": ground.own_task, "duration": "60000"}
    ),
    "/{owner}/{project}/time/report/invoice": _case(
        "", "{base}/time/report/invoice", **{"from": "{since}", "to": "{until}", "group_by": "task"}
    ),
    "/time/entries": lambda ground: Sent(
        "", "/time/entries", {"duration": "1", "start": "2026-11-02T09:00", "task_id": ground.own_task}
    ),
    "/time/start": lambda ground: Sent("", "/time/start", {"task_id": ground.own_task}),
    "/settings/tokens/new": _case("/settings/tokens/new", note="For forms", **{"scope:work.read": "1"}),
}  # fmt: skip
ELSEWHERE = {
    "/settings/administration/users", "/settings/administration/organizations", "/welcome/project",
    "/{owner}/settings/oauth-apps/{client_id}/secrets",
}  # fmt: skip
"""Forms that also take effect once, but need people or objects that these tests lack."""


def test_every_form_takes_effect_once_or_is_repeatable() -> None:
    """A new form that creates or books something must be among those that take effect once."""
    once = {path for path, each in CHANGES.items() if each.makes}
    assert once == {*CASES, *ELSEWHERE}
    odd = [path for path in CHANGES if path not in once and not path.endswith(NOT_ONCE)]
    assert odd == []


@pytest.fixture(scope="module")
def studio(server: Server) -> Iterator[Studio]:
    with open_studio(server) as studio:
        yield studio


@pytest.fixture
def ground(studio: Studio) -> Ground:
    return Ground(studio)


_counts = sa.union_all(
    *(sa.select(sa.literal(each.name).label("name"), sa.func.count().label("n")).select_from(each) for each in TABLES)
)


async def count_rows(services: Services) -> dict[str, int]:
    return {row["name"]: row["n"] for row in await services.database.fetch_all(_counts)}


def filled(browser: Browser, sent: Sent) -> dict[str, str]:
    """Return the fields of the form on its page, with the case's fields filled in."""
    if not sent.page:
        return {"csrf": masked(unmasked(_any_key(browser))), **sent.fields}
    shown = browser.get(sent.page)
    assert shown.status_code == 200, f"{sent.page}: {reason(shown)}"
    found = [each for each in forms(shown) if each.action == sent.action and "csrf" in each.fields]
    assert found, f"{sent.page} has no form that leads to {sent.action}"
    return {**found[0].fields, **sent.fields}


def _any_key(browser: Browser) -> str:
    return next(each.fields["csrf"] for each in forms(browser.get("/")) if "csrf" in each.fields)


def submit(browser: Browser, sent: Sent, fields: dict[str, str]) -> httpx.Response:
    if sent.files is None:
        return browser.post(sent.action, fields)
    headers = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
    return browser.client.post(sent.action, data=fields, files=sent.files, headers=headers)


def reason(answer: httpx.Response) -> str:
    """Describe a refusal."""
    return f"{answer.status_code}: {text_of(answer.text)[:400]}" if "<main" in answer.text else answer.text[:400]


def told(answer: httpx.Response) -> tuple[int, str | None, str | None]:
    return answer.status_code, answer.headers.get("location"), answer.headers.get("set-cookie")


@pytest.mark.one_database  # the next test covers the differences
@pytest.mark.parametrize("path", CASES)
def test_a_form_submitted_twice_takes_effect_once(server: Server, studio: Studio, ground: Ground, path: str) -> None:
    sent = CASES[path](ground)
    fields = filled(studio.owner, sent)
    before = server.run(count_rows)
    first = submit(studio.owner, sent, fields)
    after = server.run(count_rows)
    assert first.status_code in (200, 201, 303), reason(first)
    assert before["sent_forms"] + 1 == after["sent_forms"]
    if first.status_code == 303 and not path.endswith(("/send", "/start")):
        assert {each for each in after if after[each] != before[each]} > {"sent_forms"}, "it makes something"
    second = submit(studio.owner, sent, fields)
    assert server.run(count_rows) == after
    if first.status_code == 303:
        assert told(second) == told(first)
    else:  # the page may contain a secret
        assert second.status_code == 409, reason(second)
        assert "This form was already submitted" in second.text


TWICE: dict[str, Callable[[Ground], Sent]] = {
    path: CASES[path]
    for path in ("/{owner}/{project}/tasks/{task_id}/comments", "/{owner}/{project}/billing/{invoice_id}/payments",
                 "/{owner}/{project}/billing/new", "/{owner}/{project}/files")
}  # fmt: skip


@pytest.mark.parametrize("path", TWICE)
def test_two_processes_apply_a_form_once(server: Server, second_server: Server, path: str) -> None:
    """Submitted six times to each process, concurrently."""
    with open_studio(server) as studio, ThreadPoolExecutor(12) as threads:
        ground = Ground(studio)
        sent = TWICE[path](ground)
        fields = filled(studio.owner, sent)
        cookies = "; ".join(f"{each.name}={each.value}" for each in studio.owner.client.cookies.jar)
        with ExitStack() as stack:
            browsers = [stack.enter_context(Browser(each)) for each in (server, second_server) for _ in range(6)]
            for each in browsers:
                each.client.headers["Cookie"] = cookies
            before = server.run(count_rows)
            answers = [*threads.map(lambda each: submit(each, sent, fields), browsers)]
            after = server.run(count_rows)
        assert {told(each) for each in answers} == {told(answers[0])}, [*map(reason, answers)]
        assert answers[0].status_code == 303, reason(answers[0])
        assert after["sent_forms"] == before["sent_forms"] + 1
        for table in ("task_comments", "payments", "invoices", "files"):
            assert after[table] <= before[table] + 1


def test_a_refused_form_can_be_submitted_again(studio: Studio, ground: Ground) -> None:
    sent = CASES["/{owner}/{project}/billing/credits/grant"](ground)
    fields = filled(studio.owner, sent)
    assert submit(studio.owner, sent, {**fields, "amount": "much"}).status_code == 422
    assert submit(studio.owner, sent, fields).status_code == 303


def test_a_new_form_or_other_fields_create_another_object(studio: Studio, ground: Ground) -> None:
    sent = CASES["/{owner}/{project}/tasks/{task_id}/subtasks"](ground)
    fields = filled(studio.owner, sent)
    for each in (fields, {**fields, "title": "Another part"}, filled(studio.owner, sent), fields):
        assert submit(studio.owner, sent, each).status_code == 303
    shown = studio.owner.get(sent.page).text
    assert (shown.count(">A part<"), shown.count(">Another part<")) in ((2, 1), (3, 1))


def test_another_file_is_a_different_submission(studio: Studio, ground: Ground) -> None:
    sent = CASES["/{owner}/{project}/files"](ground)
    fields = filled(studio.owner, sent)
    for content in (b"one", b"two", b"two"):
        answer = submit(studio.owner, sent._replace(files={"file": ("c.txt", content, "text/plain")}), fields)
        assert answer.status_code == 303
    listed = studio.call("GET", f"{studio.project}/files")["files"]
    assert sum(each["title"] == "c.txt" for each in listed) == 2


@pytest.mark.parametrize(
    "path", ["/{owner}/{project}/billing/{invoice_id}/payments", "/{owner}/{project}/time/report/invoice"]
)
def test_a_form_whose_answer_was_lost_is_not_applied_again(
    server: Server, studio: Studio, ground: Ground, path: str
) -> None:
    """The process ended before storing the answer. In the report's case, no time would be left to invoice."""
    sent = CASES[path](ground)
    fields = filled(studio.owner, sent)
    assert submit(studio.owner, sent, fields).status_code == 303

    async def lose(services: Services) -> None:
        await services.database.write(sa.update(sent_forms).values(answer=None), [{}])

    server.run(lose)
    after = server.run(count_rows)
    answer = submit(studio.owner, sent, fields)
    assert answer.status_code == 409, reason(answer)
    assert "This form was already submitted" in answer.text
    assert server.run(count_rows) == after


def test_submissions_are_forgotten_after_a_day(server: Server, studio: Studio, ground: Ground) -> None:
    sent = CASES["/{owner}/{project}/tasks/{task_id}/subtasks"](ground)
    fields = filled(studio.owner, sent)
    assert submit(studio.owner, sent, fields).status_code == 303

    async def age(services: Services) -> None:
        made = sent_forms.c.created_at - 25 * 3_600_000
        await services.database.write(sa.update(sent_forms).values(created_at=made), [{}])
        await issue.prune(services.database, now_ms())

    server.run(age)
    assert server.run(count_rows)["sent_forms"] == 0
    assert submit(studio.owner, sent, fields).status_code == 303
    assert studio.owner.get(sent.page).text.count(">A part<") >= 2


def test_a_file_imported_twice_creates_one_project(server: Server, second_server: Server) -> None:
    """Concurrently by two processes, and again afterwards: every card keeps its origin."""
    with open_studio(server) as studio, Browser(second_server) as other, ThreadPoolExecutor(2) as threads:
        other.client.headers["Cookie"] = "; ".join(f"{it.name}={it.value}" for it in studio.owner.client.cookies.jar)
        action = f"/{studio.team.world.organization}/-/import"
        sent = Sent("", action, files={"file": ("Plans.csv", b"Title,Column\nDraw,Doing\nPrint,Doing\n", "text/csv")})
        fields = filled(studio.owner, sent) | {"step": "import"}
        before = server.run(count_rows)
        answers = [*threads.map(lambda each: submit(each, sent, fields), [studio.owner, other])]
        answers.append(submit(studio.owner, sent, fields))
        after = server.run(count_rows)
    assert answers[-1].status_code == 201, reason(answers[-1])
    assert {each.status_code for each in answers} <= {201, 409}, [*map(reason, answers)]
    found = {name: after[name] - before[name] for name in ("projects", "columns", "tasks")}
    assert found == {"projects": 1, "columns": 1, "tasks": 2}


def test_a_script_that_uploads_twice_gets_the_first_answer(studio: Studio, ground: Ground) -> None:
    fields = filled(studio.owner, CASES["/{owner}/{project}/files"](ground))
    headers = {"Origin": "null", "Sec-Fetch-Site": "same-origin", "Accept": "application/json"}
    files = {"file": ("d.txt", b"four", "text/plain")}
    path = f"{ground.base}/files"
    answers = [studio.owner.client.post(path, data=fields, files=files, headers=headers) for _ in range(2)]
    assert [each.status_code for each in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()
