"""A fresh object of each kind for requests to the work API."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import sqlalchemy as sa

from tests.harness.clients import become_client
from tests.harness.world import must
from tests.work.paper import png
from tests.work.studio import Caller, JsonObject
from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.identity.queries import repositories, repository_of
from workhook.identity.tables import projects
from workhook.work.money.invoices.actions import notify_invoice

_numbers = itertools.count(1)
_project = repositories.where(projects.c.id == sa.bindparam("project_id"))


async def _tell(services: Services, project_id: str, invoice_id: str) -> None:
    row = must(await services.database.fetch_one(_project, {"project_id": project_id, "user_id": 0}))
    async with services.database.transaction() as tx:
        notify_invoice(Write(tx, None, services.base), repository_of(row, 0), invoice_id, "sent")


class Scene:
    """Creates objects in a project as its owner. Each call creates a new one and returns its ID."""

    def __init__(self, owner: Caller, project_id: str, organization: str, somebody: str = "") -> None:
        """Set up the scene. `somebody` is the login of a member of the organization."""
        self.owner = owner
        self.project_id = project_id
        self.organization = organization
        self.somebody = somebody
        self.project_path = f"/projects/{project_id}"

    def _made(self, noun: str, path: str, **more: Any) -> Any:
        answer: JsonObject = self.owner.post(path, **more)
        return answer.get(noun, answer)["id"]

    def project(self) -> str:
        return str(self._made("project", "/projects", json={"title": "Other", "organization": self.organization}))

    def deleted_project(self) -> str:
        project_id = self.project()
        self.owner.delete(f"/projects/{project_id}")
        return project_id

    def column(self, **more: Any) -> str:
        return str(self._made("column", f"{self.project_path}/columns", json={"title": "To do", **more}))

    def task(self, column_id: str | None = None, **more: Any) -> str:
        return str(self._made("task", f"/columns/{column_id or self.column()}/tasks", json={"title": "Task", **more}))

    def deleted_task(self) -> str:
        task_id = self.task()
        self.owner.delete(f"/tasks/{task_id}")
        return task_id

    def task_comment(self, **more: Any) -> int:
        path = f"/tasks/{self.task()}/task_comments"
        return int(self._made("task_comment", path, json={"text": "Said", **more}))

    def file(self, **more: Any) -> str:
        path = f"{self.project_path}/files"
        return str(self._made("file", path, files={"file": ("a.txt", b"a file", "text/plain")}, data=more))

    def deleted_file(self) -> str:
        file_id = self.file()
        self.owner.delete(f"/files/{file_id}")
        return file_id

    def folder(self) -> str:
        return str(self._made("folder", f"{self.project_path}/folders", json={"title": "Folder"}))

    def file_comment(self, **more: Any) -> int:
        return int(self._made("file_comment", f"/files/{self.file()}/file_comments", json={"text": "Said", **more}))

    def reply(self, comment_id: int, **more: Any) -> int:
        path = f"/file_comments/{comment_id}/comments"
        return int(self._made("comment", path, json={"body": "Answered", **more}))

    def timesheet(self, **more: Any) -> str:
        body = {"task_id": self.task(), "duration": 3_600_000, "billable": True, "billable_rate": 80, **more}
        return str(self._made("timesheet", f"{self.project_path}/timesheets", json=body))

    def time_for_its_budget(self) -> JsonObject:
        """Return the body of a time entry large enough to reach the project's budget."""
        self.owner.patch(f"{self.project_path}/billing", json={"budget": {"hours": 900}})
        return {"task_id": self.task(), "duration": 31 * 24 * 3_600_000, "billable": True}

    def running(self) -> str:
        body = {"task_id": self.task()}
        return str(self._made("timesheet", f"{self.project_path}/timesheets", json=body))

    def paused(self) -> str:
        timesheet_id = self.running()
        self.owner.post(f"/timesheets/{timesheet_id}/pause")
        return timesheet_id

    def service(self) -> str:
        price = {"amount": 100, "currency": "EUR", "interval": "month", "credits": 5}
        body = {"title": "Care", "organization": self.organization, "service_prices": [price]}
        return str(self._made("service", "/services", json=body))

    def checkout(self, *steps: str) -> str:
        body = {"service_id": self.service()}
        checkout_id = str(self._made("service_checkout", f"{self.project_path}/service_checkouts", json=body))
        for step in steps:
            self.owner.post(f"/service_checkouts/{checkout_id}/{step}")
        return checkout_id

    def credit(self, **more: Any) -> str:
        return str(self._made("task_credit", f"{self.project_path}/task_credits", json={"amount": 5, **more}))

    def invoice(self, *steps: str) -> str:
        items = [{"description": "Work", "qty": 2, "unit_price": 10.5}]
        invoice_id = str(self._made("invoice", f"{self.project_path}/invoices", json={"invoice_items": items}))
        for step in steps:
            self.owner.post(f"/invoices/{invoice_id}/{step}")
        return invoice_id

    def payment(self) -> str:
        """Create a partial payment."""
        return str(self._made("payment", f"/invoices/{self.invoice('send')}/payments", json={"amount": 1}))

    def notification(self) -> int:
        """Create a notification for the owner about an invoice that Workhook issued automatically."""
        self.owner.server.run(partial(_tell, project_id=self.project_id, invoice_id=self.invoice("send")))
        newest = self.owner.get("/me/notifications", params={"per_page": 1})["notifications"]
        return int(newest[0]["id"])

    def invoice_to_credit(self) -> str:
        """Create an invoice in an account that already has a credit note."""
        self.credit_note()
        return self.invoice("send")

    def credit_note(self) -> str:
        """Create a partial credit note."""
        body = {"total": 1, "reason": "Late"}
        return str(self._made("credit_note", f"/invoices/{self.invoice('send')}/credit_notes", json=body))

    def e_invoice(self) -> str:
        """Create an invoice with everything an e-invoice requires."""
        settings = {"country": "DE", "vat_id": "DE123456789"}
        self.owner.patch(f"/organizations/{self.organization}/billing", json=settings)
        self.owner.patch(f"{self.project_path}/billing", json={"buyer": {"name": "Client AG", "country": "AT"}})
        return self.invoice("send")

    def e_credit_note(self) -> str:
        path = f"/invoices/{self.e_invoice()}/credit_notes"
        return str(self._made("credit_note", path, json={"total": 1, "reason": "Late"}))

    def billed_organization(self) -> str:
        """Change the organization's billing settings."""
        self.owner.patch(f"/organizations/{self.organization}/billing", json={"payment_terms": "Later"})
        return self.organization

    def priced_member(self) -> tuple[str, str]:
        """Return the organization and one of its members, who has an hourly rate."""
        path = f"/organizations/{self.organization}/members/{self.somebody}"
        self.owner.patch(path, json={"hourly_rate": 2})
        return self.organization, self.somebody

    def pictured_organization(self) -> str:
        """Set the organization's invoice logo."""
        path = f"/organizations/{self.organization}/billing/logo"
        self.owner.answer("PUT", path, files={"file": ("logo.png", png())})
        return self.organization

    def billed_project(self) -> str:
        """Change the project's billing settings."""
        for currency in ("USD", "EUR"):
            self.owner.patch(f"{self.project_path}/billing", json={"currency": currency})
        return self.project_id

    def client(self) -> str:
        email = self.new_email()
        made = self.owner.server.run(lambda services: become_client(services, self.project_id, email))
        return str(made.id)

    def new_email(self) -> str:
        return f"client-{next(_numbers)}@example.com"
