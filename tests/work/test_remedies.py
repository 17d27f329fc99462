"""Errors that suggest a remedy: following the suggestion works."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from scripts.texts import ENGLISH, message_sentences, stored_in
from tests.harness.world import must
from tests.work.paper import LINE, Draw, png
from tests.work.scene import Scene
from tests.work.studio import Caller, Studio
from tests.work.test_administration import change
from workhook.core.clock import DAY_MS, now_ms
from workhook.http.calls import Services
from workhook.identity.apps.actions import KEYS_MAX, SECRETS_MAX
from workhook.identity.tables import accounts, administrators
from workhook.work.discussion.actions import REPLIES_CHARS_MAX
from workhook.work.history import trash
from workhook.work.money.invoices.schemas import Booked, booked_of, booked_text, invoices
from workhook.work.money.payments.actions import BOOKED_MAX

Act = Callable[[], httpx.Response]
Case = Callable[["Workspace"], Iterator[Act]]
"""Yields a request that is refused, applies the suggested remedy, and yields a request that must succeed."""


class Workspace:
    """A project for the cases. Requests are made by its owner unless another caller is given."""

    def __init__(self, studio: Studio, scene: Scene) -> None:
        self.studio, self.scene = studio, scene
        self.owner, self.project = studio.owner, studio.project
        self.organization = f"/organizations/{studio.world.organization}"

    def act(self, method: str, path: str, *, by: Caller | None = None, **body: Any) -> Act:
        return partial((by or self.owner).call, method, path, json=body or None)

    def invoice(self, *steps: str, **more: Any) -> str:
        return f"/invoices/{self.studio.invoice(*steps, **{'invoice_items': [LINE], **more})['id']}"

    def billed(self, *steps: str) -> tuple[str, str]:
        """Return the paths of a time entry and its invoice."""
        time = self.scene.timesheet()
        return f"/timesheets/{time}", self.invoice(*steps, timesheet_ids=[time])

    def pay(self, invoice: str, amount: float) -> str:
        return str(self.owner.post(f"{invoice}/payments", json={"amount": amount})["payment"]["id"])

    def credit(self, invoice: str, **more: Any) -> None:
        self.owner.post(f"{invoice}/credit_notes", json={"reason": "Wrong", **more})

    def apps(self, method: str, path: str = "", **body: Any) -> httpx.Response:
        return self.owner.http.request(method, f"/orgs/{self.studio.world.organization}/apps{path}", json=body or None)


def archived(at: Workspace) -> Iterator[Act]:
    column = at.scene.column()
    at.owner.patch(at.project, json={"archive": True})
    yield at.act("PATCH", f"/columns/{column}", title="Done")
    at.owner.patch(at.project, json={"archive": False})
    yield at.act("PATCH", f"/columns/{column}", title="Done")


def folder_with_files(at: Workspace) -> Iterator[Act]:
    folder = at.scene.folder()
    file = at.scene.file(folder=folder)
    yield (act := at.act("DELETE", f"/folders/{folder}"))
    at.owner.delete(f"/files/{file}")
    yield act


def nested_subtasks(at: Workspace) -> Iterator[Act]:
    column = at.scene.column()
    above = at.scene.task(column)
    below = at.scene.task(column, parent_id=above)
    task = at.scene.task(column)
    yield at.act("PATCH", f"/tasks/{task}", parent_id=below)
    yield at.act("PATCH", f"/tasks/{task}", parent_id=above)


def task_with_subtasks(at: Workspace, *, deleted: bool = False) -> Iterator[Act]:
    column = at.scene.column()
    task, other = at.scene.task(column), at.scene.task(column)
    below = at.scene.task(column, parent_id=task)
    if deleted:
        at.owner.delete(f"/tasks/{below}")
    yield (act := at.act("PATCH", f"/tasks/{task}", parent_id=other))
    if deleted:
        at.owner.post(f"/tasks/{below}/restore")
    at.owner.patch(f"/tasks/{below}", json={"parent_id": None})
    yield act


def others_worked_on_it(at: Workspace) -> Iterator[Act]:
    task = at.studio.client.new_task(at.scene.column())["id"]
    at.owner.post(f"/tasks/{task}/task_comments", json={"text": "Said"})
    yield at.act("DELETE", f"/tasks/{task}", by=at.studio.client)
    yield at.act("DELETE", f"/tasks/{task}", by=at.studio.member)


def time_on_a_draft(at: Workspace, method: str = "PATCH") -> Iterator[Act]:
    time, invoice = at.billed()
    body: dict[str, Any] = {"duration": 60_000} if method == "PATCH" else {}
    yield (act := at.act(method, time, **body))
    at.owner.patch(invoice, json={"timesheet_ids": []})
    yield act


def time_on_an_invoice(
    at: Workspace, remedy: Callable[[Workspace, str], object], *steps: str, method: str = "DELETE", paid: float = 0
) -> Iterator[Act]:
    time, invoice = at.billed("send", *steps)
    if paid:
        at.pay(invoice, paid)
    body: dict[str, Any] = {"duration": 60_000} if method == "PATCH" else {}
    yield (act := at.act(method, time, **body))
    remedy(at, invoice)
    yield act


def void(at: Workspace, invoice: str) -> None:
    at.owner.post(f"{invoice}/void")


def credit_in_parts(at: Workspace, invoice: str) -> None:
    at.credit(invoice, total=10)
    at.credit(invoice)


def timer_of_another(at: Workspace) -> Iterator[Act]:
    """The timer runs in a project where the caller cannot write."""
    person = at.studio.member
    first = person.post(f"{at.project}/timesheets", json={"task_id": at.scene.task()})["timesheet"]["id"]
    person.post(f"/timesheets/{first}/pause")
    elsewhere = person.post("/projects", json={"title": "Own", "organization": person.login})["project"]["id"]
    column = person.post(f"/projects/{elsewhere}/columns", json={"title": "To do"})["column"]["id"]
    body = {"task_id": person.new_task(column)["id"]}
    second = person.post(f"/projects/{elsewhere}/timesheets", json=body)["timesheet"]["id"]
    yield (act := at.act("POST", f"/timesheets/{first}/resume"))
    person.post(f"/timesheets/{second}/pause")
    yield act


def pending_checkout(at: Workspace, step: str) -> Iterator[Act]:
    checkout = f"/service_checkouts/{at.scene.checkout()}"
    yield (act := at.act("POST", f"{checkout}/{step}"))
    at.owner.post(f"{checkout}/complete")
    yield act


def project_with_invoices(at: Workspace) -> Iterator[Act]:
    at.invoice("send")
    yield at.act("DELETE", at.project)
    yield at.act("PATCH", at.project, archive=True)


def service_on_invoices(at: Workspace) -> Iterator[Act]:
    service = at.owner.get(f"/service_checkouts/{at.scene.checkout('complete')}")["service_checkout"]["service"]["id"]
    yield at.act("DELETE", f"/services/{service}")
    yield at.act("PATCH", f"/services/{service}", active=False)


def task_on_invoices(at: Workspace) -> Iterator[Act]:
    time, _ = at.billed("send")
    task = at.owner.get(time)["timesheet"]["task"]["id"]
    yield at.act("DELETE", f"/tasks/{task}")
    yield at.act("PATCH", f"/tasks/{task}", column_id=at.scene.column(finished=True))


def logo_of_invoices(at: Workspace, method: str = "DELETE") -> Iterator[Act]:
    files = {"file": ("logo.png", png(), "image/png")}
    file = at.owner.post(f"{at.project}/files", files=files)["file"]
    at.owner.patch(at.project, json={"avatar": file["file_link"]})
    at.invoice("send")
    body: dict[str, Any] = {"private": True} if method == "PATCH" else {}
    yield (act := at.act(method, f"/files/{file['id']}", **body))
    at.owner.patch(at.project, json={"avatar": None})
    yield act


def draft_that_is_paid(at: Workspace) -> Iterator[Act]:
    invoice = at.invoice()
    yield (act := at.act("POST", f"{invoice}/payments", amount=1))
    at.owner.post(f"{invoice}/send")
    yield act


def draft_without_lines(at: Workspace) -> Iterator[Act]:
    invoice = at.invoice(invoice_items=[])
    yield (act := at.act("POST", f"{invoice}/send"))
    at.owner.patch(invoice, json={"invoice_items": [LINE]})
    yield act


def reverse_charge(at: Workspace, who: str) -> Iterator[Act]:
    settings = {"seller": (at.organization, {"vat_id": "DE123456789"}),
                "buyer": (at.project, {"buyer": {"vat_id": "ATU12345678"}})}  # fmt: skip
    for name, (path, body) in settings.items():
        if name != who:
            at.owner.patch(f"{path}/billing", json=body)
    yield (act := at.act("POST", f"{at.invoice(tax_category='reverse_charge', tax=0)}/send"))
    path, body = settings[who]
    at.owner.patch(f"{path}/billing", json=body)
    yield act


def voided_after_a_payment(at: Workspace) -> Iterator[Act]:
    invoice = at.invoice("send")
    payment = at.pay(invoice, 5)
    yield (act := at.act("POST", f"{invoice}/void"))
    at.owner.post(f"/payments/{payment}/refund")
    yield act


def voided_after_all_was_paid(at: Workspace) -> Iterator[Act]:
    invoice = at.invoice("send", "pay")
    yield at.act("POST", f"{invoice}/void")
    yield at.act("POST", f"{invoice}/credit_notes", reason="Wrong")


def voided_after_a_credit(at: Workspace, *, paid: float = 0) -> Iterator[Act]:
    invoice = at.invoice("send")
    if paid:
        at.pay(invoice, paid)
    at.credit(invoice, total=10)
    yield at.act("POST", f"{invoice}/void")
    yield at.act("POST", f"{invoice}/credit_notes", reason="Wrong")


def client_as_member(at: Workspace) -> Iterator[Act]:
    login = at.studio.client.login
    [client] = at.owner.get(f"{at.project}/clients")["clients"]
    yield (act := at.act("POST", f"{at.project}/members", username=login))
    at.owner.delete(f"/clients/{client['id']}")
    yield act


def draft_in_a_currency_with_fewer_decimals(at: Workspace, currency: str, price: float) -> Iterator[Act]:
    invoice = at.invoice(currency="BHD", invoice_items=[{**LINE, "unit_price": price}])
    yield at.act("PATCH", invoice, currency=currency)
    yield at.act("PATCH", invoice, currency=currency, invoice_items=[{**LINE, "unit_price": 7}])


def discount_in_a_currency_without_decimals(at: Workspace) -> Iterator[Act]:
    invoice = at.invoice(invoice_items=[{**LINE, "unit_price": 7}], discount_amount=0.5)
    yield at.act("PATCH", invoice, currency="JPY")
    yield at.act("PATCH", invoice, currency="JPY", discount_amount=1)


def rates_in_another_currency(at: Workspace, make: Callable[[Workspace], Act]) -> Iterator[Act]:
    """`make` stores an amount with too many decimals and returns the request that fixes it."""
    at.owner.patch(f"{at.project}/billing", json={"currency": "EUR"})
    change = make(at)
    yield (act := at.act("PATCH", f"{at.project}/billing", currency="JPY"))
    assert (done := change()).is_success, done.text
    yield act


def task_rate(at: Workspace) -> Act:
    task = at.scene.task(hourly_rate=80.5)
    return at.act("PATCH", f"/tasks/{task}", hourly_rate=80)


def deleted_task_rate(at: Workspace) -> Act:
    task = at.scene.task(hourly_rate=80.5)
    at.owner.delete(f"/tasks/{task}")

    def change() -> httpx.Response:
        at.owner.post(f"/tasks/{task}/restore")
        return at.act("PATCH", f"/tasks/{task}", hourly_rate=80)()

    return change


def drafted_time_rate(at: Workspace) -> Act:
    """Changing the time entry is refused as well, with a suggestion about the draft."""
    time = at.scene.timesheet(billable_rate=80.5)
    invoice = at.invoice(timesheet_ids=[time])

    def change() -> httpx.Response:
        refused = at.owner.refused(409, "PATCH", f"/timesheets/{time}", json={"billable_rate": 80})
        assert "Remove it from the draft first" in refused["message"]
        at.owner.patch(invoice, json={"timesheet_ids": []})
        return at.act("PATCH", f"/timesheets/{time}", billable_rate=80)()

    return change


def person_rate(at: Workspace) -> Act:
    def rates(rate: float) -> dict[str, Any]:
        return {"rates": [{"username": at.owner.login, "hourly_rate": rate}]}

    at.owner.patch(f"{at.project}/billing", json=rates(80.5))
    return at.act("PATCH", f"{at.project}/billing", **rates(80))


def rate_of_billed_time(at: Workspace) -> Iterator[Act]:
    at.owner.patch(f"{at.project}/billing", json={"currency": "EUR"})
    at.invoice("send", "pay", timesheet_ids=[at.scene.timesheet(billable_rate=80.5)])
    yield at.act("PATCH", f"{at.project}/billing", currency="JPY")
    yield at.act("PATCH", f"/projects/{at.scene.project()}/billing", currency="JPY")


def rate_above_the_bound(at: Workspace) -> Iterator[Act]:
    at.owner.patch(f"{at.project}/billing", json={"currency": "EUR", "hourly_rate": 900_000})
    yield (act := at.act("PATCH", f"{at.project}/billing", currency="BHD"))
    at.owner.patch(f"{at.project}/billing", json={"hourly_rate": 100_000})
    yield act


def member_rate(at: Workspace) -> Iterator[Act]:
    at.owner.patch(f"{at.organization}/billing", json={"currency": "EUR"})
    member = f"{at.organization}/members/{at.owner.login}"
    at.owner.patch(member, json={"hourly_rate": 80.5})
    yield (act := at.act("PATCH", f"{at.organization}/billing", currency="JPY"))
    at.owner.patch(member, json={"hourly_rate": 80})
    yield act


def project_rate(at: Workspace) -> Act:
    at.owner.patch(f"{at.project}/billing", json={"hourly_rate": 80.5})
    return at.act("PATCH", f"{at.project}/billing", hourly_rate=80)


def project_budget(at: Workspace) -> Act:
    at.owner.patch(f"{at.project}/billing", json={"budget": {"amount": 80.5}})
    return at.act("PATCH", f"{at.project}/billing", budget={"amount": 80})


def time_rate(at: Workspace) -> Act:
    return at.act("PATCH", f"/timesheets/{at.scene.timesheet(billable_rate=80.5)}", billable_rate=80)


def rate_of_time_on_an_invoice(at: Workspace, currency: str, before: str = "EUR", rate: float = 80.5) -> Iterator[Act]:
    at.owner.patch(f"{at.project}/billing", json={"currency": before})
    time = at.scene.timesheet(billable_rate=rate)
    invoice = at.invoice(currency=before)
    yield at.act("PATCH", invoice, currency=currency, timesheet_ids=[time], invoice_items=[])
    at.owner.patch(f"/timesheets/{time}", json={"billable_rate": 80})
    yield at.act("PATCH", invoice, currency=currency, timesheet_ids=[time], invoice_items=[])


def time_without_a_rate(at: Workspace) -> Iterator[Act]:
    time = at.scene.timesheet(billable_rate=None)
    yield (act := at.act("PATCH", at.invoice(), timesheet_ids=[time]))
    at.owner.patch(f"/timesheets/{time}", json={"billable_rate": 0})
    yield act


def e_invoice(at: Workspace, missing: str) -> Iterator[Act]:
    seller = {"country": "DE", "vat_id": "DE123456789"}
    buyer = {"name": "Client AG", "country": "AT"}
    who, _, name = missing.partition(".")
    for each, path, body in (("seller", at.organization, seller), ("buyer", at.project, {"buyer": buyer})):
        part = body if each == "seller" else buyer
        less = {key: value for key, value in part.items() if each != who or key != name}
        at.owner.patch(f"{path}/billing", json=less if each == "seller" else {"buyer": less})
    invoice = at.invoice("send")
    yield at.act("GET", f"{invoice}/xml")
    if who == "seller":
        at.owner.patch(f"{at.organization}/billing", json=seller)
    else:
        at.owner.patch(f"{at.project}/billing", json={"buyer": buyer})
    if missing in ("seller.vat_id", "buyer.name"):
        at.credit(invoice)
        invoice = at.invoice("send")
    yield at.act("GET", f"{invoice}/xml")


async def fill_with_bookings(services: Services, invoice_id: str, count: int) -> None:
    async with services.database.transaction() as tx:
        row = must(await tx.fetch_one(sa.select(invoices.c.payments).where(invoices.c.id == invoice_id)))
        booked = booked_of(row["payments"])
        every = booked_text([*booked, *[Booked("pay_0", 0, 0)] * (count - len(booked))])
        await tx.execute(sa.update(invoices).where(invoices.c.id == invoice_id).values(payments=every))


def with_very_many_bookings(at: Workspace, step: str, count: int = BOOKED_MAX) -> Iterator[Act]:
    invoice = at.invoice("send")
    payment = at.pay(invoice, 5)
    at.studio.server.run(partial(fill_with_bookings, invoice_id=invoice.rpartition("/")[2], count=count))
    forms: dict[str, tuple[str, dict[str, Any]]] = {
        "pay": (f"{invoice}/payments", {"amount": 1} if count == BOOKED_MAX else {}),
        "refund": (f"/payments/{payment}/refund", {"amount": 1}),
        "credit": (f"{invoice}/credit_notes", {"reason": "Wrong", "total": 1}),
    }
    path, part = forms[step]
    yield at.act("POST", path, **part)
    if count > BOOKED_MAX:
        path = f"{invoice}/credit_notes"
    rest: dict[str, Any] = {"reason": "Wrong"} if "credit" in path else {}
    yield at.act("POST", path, **rest)


def app_of(at: Workspace) -> str:
    answer = at.apps("POST", name=f"App of {at.organization[-8:]}")
    assert answer.status_code == 201, answer.text
    return f"/{answer.json()['slug']}"


def last_key(at: Workspace) -> Iterator[Act]:
    app = app_of(at)
    first = at.apps("POST", f"{app}/keys").json()["id"]
    for each in at.apps("GET", f"{app}/keys").json():
        if each["id"] != first:
            at.apps("DELETE", f"{app}/keys/{each['id']}")
    yield (act := partial(at.apps, "DELETE", f"{app}/keys/{first}"))
    at.apps("POST", f"{app}/keys")
    yield act


def one_too_many(at: Workspace, what: str, most: int) -> Iterator[Act]:
    app = app_of(at)
    for _ in range(most):
        at.apps("POST", f"{app}/{what}")
    yield (act := partial(at.apps, "POST", f"{app}/{what}"))
    listed = at.apps("GET", app).json()["secrets"] if what == "secrets" else at.apps("GET", f"{app}/keys").json()
    at.apps("DELETE", f"{app}/{what}/{listed[0]['id']}")
    yield act


def comment_with_many_replies(at: Workspace) -> Iterator[Act]:
    file = at.scene.file()
    comment = at.owner.post(f"/files/{file}/file_comments", json={"text": "Said"})["id"]
    long: dict[str, Any] = {"body": "word " * 12_000}
    for _ in range(REPLIES_CHARS_MAX // len(long["body"])):
        at.owner.post(f"/file_comments/{comment}/comments", json=long)
    yield at.act("POST", f"/file_comments/{comment}/comments", **long)
    yield at.act("POST", f"/files/{file}/file_comments", text=long["body"])


def administration(at: Workspace, method: str, path: str, **body: Any) -> Act:
    """Return a request by a server administrator."""
    administrator = at.studio.stranger
    change(at.studio.server, administrator.login)
    return partial(administrator.http.request, method, f"/admin{path}", json=body or None)


def last_owner(at: Workspace) -> Iterator[Act]:
    someone, place = at.studio.add().login, f"place-{at.studio.project_id[-8:].lower()}"
    administration(at, "POST", "/organizations", login=place, admin=someone)().raise_for_status()
    yield (act := administration(at, "DELETE", f"/users/{someone}"))
    administration(at, "DELETE", f"/organizations/{place}")().raise_for_status()
    yield act


def last_administrator(at: Workspace) -> Iterator[Act]:
    someone = at.studio.add().login
    act = administration(at, "DELETE", f"/users/{at.studio.stranger.login}")

    async def end_the_others(services: Services) -> list[int]:
        mine = sa.select(accounts.c.id).where(accounts.c.login == at.studio.stranger.login).scalar_subquery()
        others = administrators.c.user_id != mine
        async with services.database.transaction() as tx:
            rows = await tx.fetch_all(sa.select(administrators.c.user_id).where(others))
            await tx.execute(sa.delete(administrators).where(others))
        return [row["user_id"] for row in rows]

    at.studio.server.run(end_the_others)
    yield act
    change(at.studio.server, someone)
    yield act


def own_projects(at: Workspace) -> Iterator[Act]:
    someone = at.studio.add()
    own = someone.post("/projects", json={"title": "My own", "organization": someone.login})["project"]
    yield (act := administration(at, "DELETE", f"/users/{someone.login}"))
    someone.delete(f"/projects/{own['id']}")
    at.studio.server.run(lambda services: trash.purge_projects(services, now_ms() + trash.KEPT_MS + DAY_MS))
    yield act


def time_in_a_currency_with_fewer_decimals(at: Workspace, before: str, currency: str, rate: float) -> Iterator[Act]:
    at.owner.patch(f"{at.project}/billing", json={"currency": before})
    invoice = at.invoice(currency=before, timesheet_ids=[at.scene.timesheet(billable_rate=rate)])
    yield (act := at.act("PATCH", invoice, currency=currency, invoice_items=[{**LINE, "unit_price": 7}]))
    at.owner.patch(invoice, json={"timesheet_ids": []})
    yield act


CASES: dict[str, list[tuple[str, Case]]] = {
    "{} is the last active owner of {}; make another member an owner first, or "
    "delete the organization": [("", last_owner)],
    "{} is the last active administrator; appoint another one first": [
        ("", last_administrator),
    ],
    "{} owns projects ({}). Delete them and wait until they have left the trash, or have the account disabled": [
        ("", own_projects),
    ],
    "currency: an amount in {} has no decimal places, but the invoice has an amount with more; first remove "
    "the time with that rate, with timesheet_ids": [
        ("", partial(time_in_a_currency_with_fewer_decimals, before="EUR", currency="JPY", rate=80.5)),
    ],
    "currency: an amount in {} has at most {} decimal places, but the invoice has an amount with more; first "
    "remove the time with that rate, with timesheet_ids": [
        ("", partial(time_in_a_currency_with_fewer_decimals, before="BHD", currency="EUR", rate=80.125)),
    ],
    "The project is archived; unarchive it (archive: false) to change it.": [("", archived)],
    "The folder contains files; delete them first.": [("", folder_with_files)],
    "{}: a subtask cannot have subtasks; use its parent task instead": [("", nested_subtasks)],
    "{}: a task with subtasks cannot be a subtask; detach its subtasks first, including those in the trash": [
        ("", task_with_subtasks), ("in the trash", partial(task_with_subtasks, deleted=True)),
    ],
    "{}: others have worked on it, so a client cannot delete it; ask a team member to delete it.": [
        ("", others_worked_on_it),
    ],
    "The timesheet is on the draft invoice {}. Remove it from the draft first; then it can be {}.": [
        ("changed", time_on_a_draft), ("deleted", partial(time_on_a_draft, method="DELETE")),
    ],
    "The timesheet is on invoice {}. Void or credit the invoice first; then the timesheet can be {}.": [
        ("void", partial(time_on_an_invoice, remedy=void)),
        ("changed", partial(time_on_an_invoice, remedy=void, method="PATCH")),
        ("credit", partial(time_on_an_invoice, remedy=Workspace.credit)),
        ("credit in parts", partial(time_on_an_invoice, remedy=credit_in_parts)),
        ("credit part paid", partial(time_on_an_invoice, remedy=Workspace.credit, paid=5)),
        ("credit paid", lambda at: time_on_an_invoice(at, Workspace.credit, "pay")),
    ],
    "The user has another timer running, which you cannot pause; the user has to pause it first.": [
        ("", timer_of_another),
    ],
    "The checkout is pending: complete it first, or delete it.": [
        (step, partial(pending_checkout, step=step)) for step in ("pause", "cancel")
    ],
    "The project has issued invoices ({}), so it cannot be {}; archive it instead (archive: true).": [
        ("", project_with_invoices),
    ],
    "The service is on issued invoices ({}), so it cannot be {}; deactivate it instead (active: "
    "false).": [
        ("", service_on_invoices),
    ],
    "{} is on issued invoices ({}), so it cannot be {}; leave it in a column of finished tasks, or "
    "archive the project (archive: true).": [("", task_on_invoices)],
    "The file is the logo of issued invoices ({}), so it cannot be {}; give the project another avatar "
    "first.": [("deleted", logo_of_invoices), ("private", partial(logo_of_invoices, method="PATCH"))],
    "The invoice is {}; send it first.": [("", draft_that_is_paid)],
    "invoice_items: the invoice has no lines; add some before sending it": [("", draft_without_lines)],
    "seller.vat_id: required for an invoice with reverse_charge; set vat_id in {} first": [
        ("", partial(reverse_charge, who="seller")),
    ],
    "buyer.vat_id: required for an invoice with reverse_charge; set buyer.vat_id in {} first": [
        ("", partial(reverse_charge, who="buyer")),
    ],
    "The invoice has payments; refund them first.": [("", voided_after_a_payment)],
    "The invoice is {}; issue a credit note instead (credit_notes).": [("", voided_after_all_was_paid)],
    "The invoice has credit notes; credit the remaining amount instead.": [
        ("", voided_after_a_credit), ("part paid", partial(voided_after_a_credit, paid=5)),
    ],
    "The invoice already has {} payments and credit notes. Another one must cover the full remaining amount; "
    "omit the amount.": [
        (step, partial(with_very_many_bookings, step=step)) for step in ("pay", "refund", "credit")
    ],
    "The invoice has {} payments and credit notes; credit the remaining amount instead.": [
        ("", partial(with_very_many_bookings, step="pay", count=2 * BOOKED_MAX)),
    ],
    "this is the app's last key: add another one first": [("", last_key)],
    "an app can have at most {} keys; delete an unused one first": [
        ("", partial(one_too_many, what="keys", most=KEYS_MAX)),
    ],
    "an app can have at most {} secrets; delete an unused one first": [
        ("", partial(one_too_many, what="secrets", most=SECRETS_MAX)),
    ],
    "A comment can have at most {} replies with a total of {} characters. Add a new comment to the file instead.": [
        ("", comment_with_many_replies),
    ],
    "username {} is a client of the project; remove the client first": [("", client_as_member)],
    "currency: an amount in {} has no decimal places, but the invoice has an amount with more; also send {}": [
        ("line", partial(draft_in_a_currency_with_fewer_decimals, currency="JPY", price=7.5)),
        ("discount", discount_in_a_currency_without_decimals),
    ],
    "currency: an amount in {} has at most {} decimal places, but the invoice has an amount with more; also "
    "send {}": [("", partial(draft_in_a_currency_with_fewer_decimals, currency="EUR", price=7.125))],
    "currency: {} is not valid in {}, where {}; {}": [
        *((make.__name__, partial(rates_in_another_currency, make=make)) for make in (
            task_rate, deleted_task_rate, project_rate, project_budget, time_rate, drafted_time_rate, person_rate,
        )),
        ("billed time", rate_of_billed_time), ("too large", rate_above_the_bound), ("member", member_rate),
    ],
    "{} ({}): an amount in {} has no decimal places, but its rate has more; set another "
    "billable_rate": [("", partial(rate_of_time_on_an_invoice, currency="JPY"))],
    "{} ({}): an amount in {} has at most {} decimal places, but its rate has more; set "
    "another billable_rate": [("", partial(rate_of_time_on_an_invoice, currency="EUR", before="BHD", rate=7.125))],
    "{} ({}): it has no hourly rate: set billable_rate, which can be 0": [
        ("", time_without_a_rate),
    ],
    "seller.country: required for e-invoices; set country in {}": [
        ("", partial(e_invoice, missing="seller.country")),
    ],
    "seller.vat_id: required for e-invoices, unless there is a tax number; set vat_id or tax_number in {}; "
    "an issued invoice cannot be changed: credit it and issue another": [
        ("", partial(e_invoice, missing="seller.vat_id")),
    ],
    "buyer.country: required for e-invoices; set buyer.country in {}": [
        ("", partial(e_invoice, missing="buyer.country")),
    ],
    "buyer.name: required for e-invoices; set bill_to of the invoice, or buyer.name in {} before sending it": [
        ("", partial(e_invoice, missing="buyer.name")),
    ],
}  # fmt: skip

# Remedies within the same request or on another day, which are always possible. Two exceptions would require a thousand
# invitations, or a time zone that only another server knows.
IN_THE_REQUEST = {
    "This address has already received {} invitations today. Try again tomorrow, or send the link yourself.",
    "{} {} is reserved for a page of the server; choose another",
    "repeat: this rule has no further dates; use one that continues, or null",
    "The tasks have too much text to be changed in one request; change fewer at once.",
    "The checkout cannot be canceled in its first {} months.",
    "The checkout cannot be canceled in its first month.",
    "{}: the invoice's texts would have {} characters in total; at most {} can be printed. "
    "Shorten them, or split the invoice",
    "{}: the tax category {} requires a tax of 0; omit one of the two",
    "{}: the lines already define the amounts and rates to credit; omit one or the other",
    "{}: more than {} tasks would block one another; remove some of the blockers",
    "callback_urls: {} must not contain a wildcard; list each URL",
    "This password is too common. Choose one that is harder to guess.",
    "The URL you've entered is not valid. Please make sure that you encode all special characters first",
    "url must not contain a username, password, or token. Send them as username and password of the configuration; "
    "they become an Authorization header.",
    "{} is ********, the mask of a stored {}, but none is stored. Send the actual {} or omit it.",
    "seller.timezone: unknown time zone {}; choose another time zone in {} first",
}
_REMEDY = re.compile(
    r"\b(first|instead)\b|[;:.,]( or)? (add|archive|ask|change|choose|complete|create|credit|delete|give|leave|list|"
    r"move|name|omit|remove|restore|send|set|shorten|take|unarchive|use|void|write)\b",
    re.IGNORECASE,
)


_TRIED_ELSEWHERE = re.compile(
    r"\{\} must be |line |it (is|has|takes) |no user matches |its |(change|restore) the |The organization |The next |"
    r"A service can have|An invoice can have|No user has the e-mail|Several users have|Sign-in with|The user with the |"
    r"Unknown event |This link is |Too many users|Your account is |Your provider |service_to: |the file is empty|"
    r"this is the export of "
)


def test_every_error_that_suggests_a_remedy_has_a_case() -> None:
    sentences = {str(each.id) for each in stored_in(ENGLISH) if each.context is None} | message_sentences()
    named = {each for each in sentences if _REMEDY.search(each) and not _TRIED_ELSEWHERE.match(each)}
    assert named - set(CASES) == IN_THE_REQUEST


def test_a_fully_credited_invoice_suggests_no_remedy_for_voiding(studio: Studio, draw: Draw) -> None:
    path = f"/invoices/{draw('send')}"
    studio.owner.post(f"{path}/credit_notes", json={"reason": "Wrong"})
    assert studio.owner.refused(409, "POST", f"{path}/void")["message"] == "The invoice is fully credited."


_PAIRS = [(sentence, each[1]) for sentence, found in CASES.items() for each in found]
_NAMES = [f"{sentence[:50]} {name}".strip() for sentence, found in CASES.items() for name, _ in found]


@pytest.mark.parametrize(("sentence", "case"), _PAIRS, ids=_NAMES)
def test_the_suggested_remedy_works(studio: Studio, scene: Scene, sentence: str, case: Case) -> None:
    steps = iter(case(Workspace(studio, scene)))
    refused = next(steps)()
    assert 400 <= refused.status_code < 500, refused.text
    body = refused.json()
    told = [body["message"], *(each["message"] for each in body.get("errors", []))]
    pattern = re.escape(sentence).replace(r"\{\}", ".+?")
    assert any(re.fullmatch(pattern, each) for each in told), told
    done = next(steps)()
    assert done.is_success, done.text
