"""Everything that a permission allows in one organization, each probed by a real request."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import httpx

from tests.harness.server import Server
from tests.work.requests_kit import TABLE
from tests.work.scene import Scene
from tests.work.studio import Studio

_numbers = itertools.count(1)

# For lists of everything that a user sees, only the content matters. PDFs need a separate process, and are readable by
# the same people as the invoice or credit note.
_ACROSS = {"GET /tasks", "GET /timesheets", "GET /timesheets/running", "GET /invoices", "GET /files", "GET /comments"}
_LISTS = {
    "GET /me", "GET /me/notifications", "GET /me/notification_settings", "GET /projects", "GET /trash", "GET /search",
    "GET /services", "GET /reports/timesheets", *_ACROSS,
}  # fmt: skip
_LEFT_OUT = _LISTS | {
    "GET /invoices/{}/pdf",
    "GET /credit_notes/{}/pdf",
    "GET /invoices/{}/xml",
    "GET /credit_notes/{}/xml",
}
_OF_ISSUED = {
    "GET /invoices/{}", "GET /invoices/{}/payments", "GET /invoices/{}/credit_notes", "GET /payments/{}",
    "GET /credit_notes/{}",
}  # fmt: skip

Probe = Callable[[httpx.Client], bool]


def _answers(method: str, path: str, body: object = None) -> Probe:
    return lambda http: _is_given(http.request(method, path, json=body))


def _is_given(answer: httpx.Response) -> bool:
    """Fail on server errors, which must not count as refusals."""
    assert answer.status_code < 500, answer.text
    return answer.is_success


def _makes_a_webhook(path: str) -> Probe:
    def probe(http: httpx.Client) -> bool:
        # An app may not create two webhooks with the same address.
        config = {"url": f"http://127.0.0.1:9/possible/{next(_numbers)}"}
        hook = {"name": "web", "config": config, "events": ["push"], "active": False}
        return _is_given(http.post(path, json=hook))

    return probe


def _lists(path: str, wanted: str) -> Probe:
    def probe(http: httpx.Client) -> bool:
        answer = http.get(path)
        return _is_given(answer) and wanted in answer.text

    return probe


class Side:
    """One organization with a project and one object of each kind."""

    def __init__(self, server: Server, *, issued: bool = True) -> None:
        """`issued` adds a sent invoice, which prevents the deletion of the project."""
        self.server = server
        self.studio = Studio(server, server.world())
        self.world = self.studio.world
        member = self.studio.add(member="member").login
        self.scene = Scene(self.studio.owner, self.world.project_id, self.world.organization, member)
        self.word = f"zebra{next(_numbers)}{self.world.organization.replace('-', '')}"
        self.column_id = self.scene.column()
        self.task_id = self.scene.task(self.column_id, description=self.word)
        self.file_link = self.studio.owner.get(f"/files/{self.scene.file()}")["file"]["file_link"]
        self.commented_id = self.scene.task(title=f"Commented {self.word}")
        self.studio.owner.post(f"/tasks/{self.commented_id}/task_comments", json={"text": "Said"})
        spent = {"task_id": self.task_id, "duration": 1000}
        self.timesheet_id = self.studio.owner.post(f"{self.studio.project}/timesheets", json=spent)["timesheet"]["id"]
        self._left_out = _LEFT_OUT if issued else _LEFT_OUT | _OF_ISSUED
        self.probes: dict[str, Probe] = {**self._reads(), **self._lists(), **self._writes(), **self._hooks()}

    def _reads(self) -> dict[str, Probe]:
        found = {}
        for key, (_, made, _) in TABLE.items():
            if key.startswith("GET ") and key not in self._left_out:
                ids = made(self.scene)
                path = key.split()[1].format(*(ids if isinstance(ids, tuple) else (ids,)))
                found[key] = _answers("GET", f"/api/v1{path}")
        return found

    def _lists(self) -> dict[str, Probe]:
        organization, project_id, name = self.world.organization, self.world.project_id, self.world.full_name
        service_id = self.scene.service()
        return {
            "listed: project": _lists("/api/v1/projects", project_id),
            "listed: search": _lists(f"/api/v1/search?q={self.word}", self.task_id),
            "listed: task": _lists("/api/v1/tasks", self.task_id),
            "listed: file": _lists("/api/v1/files", project_id),
            "listed: comment": _lists("/api/v1/comments", self.commented_id),
            "listed: time": _lists("/api/v1/timesheets", self.timesheet_id),
            "listed: service": _lists("/api/v1/services", service_id),
            "listed: report": _lists("/api/v1/reports/timesheets?group_by=project", project_id),
            "listed: repository": _lists("/user/repos?per_page=100", name),
            "listed: repository of the organization": _lists(f"/orgs/{organization}/repos?per_page=100", name),
            "listed: repository of the installation": _lists("/installation/repositories?per_page=100", name),
            "listed: organization": _lists("/user/orgs?per_page=100", organization),
        }

    def _writes(self) -> dict[str, Probe]:
        v1, project = "/api/v1", f"/api/v1/projects/{self.world.project_id}"
        spent = {"task_id": self.task_id, "duration": 1000}
        service = {"title": "New", "organization": self.world.organization}
        return {
            "write: task": _answers("POST", f"{v1}/columns/{self.column_id}/tasks", {"title": "New"}),
            "write: comment": _answers("POST", f"{v1}/tasks/{self.task_id}/task_comments", {"text": "Said"}),
            "write: column": _answers("POST", f"{project}/columns", {"title": "New"}),
            "write: time": _answers("POST", f"{project}/timesheets", spent),
            "write: title": _answers("PATCH", project, {"title": "Website"}),
            "write: folder": _answers("POST", f"{project}/folders", {"title": "New"}),
            "write: service": _answers("POST", f"{v1}/services", service),
        }

    def _hooks(self) -> dict[str, Probe]:
        """Return probes of the webhook API, of publishing, and of what only owners may read."""
        found = {}
        for place, path in (("repository", self.world.repo_path), ("organization", self.world.org_path)):
            push = {"event": "push", "payload": {"ref": "refs/heads/main"}}
            found[f"{place}: read"] = _answers("GET", path)
            found[f"{place}: webhooks"] = _answers("GET", f"{path}/hooks")
            found[f"{place}: new webhook"] = _makes_a_webhook(f"{path}/hooks")
            found[f"{place}: publishing"] = _answers("POST", f"{path}/events", push)
        found["repository: collaborators"] = _answers("GET", f"{self.world.repo_path}/collaborators")
        found["organization: members"] = _answers("GET", f"{self.world.org_path}/members")
        found["organization: audit log"] = _answers("GET", f"{self.world.org_path}/audit-log")
        found["organization: installations"] = _answers("GET", f"{self.world.org_path}/installations")
        return found

    def possible(self, token: str, server: Server | None = None) -> set[str]:
        """Return the names of the probes that succeed with the token on this server."""
        with (server or self.server).client(token) as http:
            return {name for name, probe in self.probes.items() if probe(http)}

    def close(self) -> None:
        self.studio.close()
