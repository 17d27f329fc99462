"""A valid request for every operation of the work API, and who may make it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.work.paper import png
from tests.work.scene import Scene

# Statuses for owner, member, client and stranger. Without a token the status is always 401.
ALL = (200, 200, 200, 200)
INSIDE = (200, 200, 200, 404)  # visible to clients, or allowed for them
TEAM = (200, 200, 404, 404)  # hidden from clients
TEAM_ONLY = (200, 200, 403, 404)  # visible to clients but not allowed for them
OWNERS = (200, 403, 403, 404)
AUTHOR = OWNERS  # the author is the owner
OWNERS_HIDDEN = (200, 403, 404, 404)

Made = Callable[[Scene], Any]
Row = tuple[tuple[int, int, int, int], Made, dict[str, Any] | Made]
"""The statuses; a function returning the ID or IDs in the path; the request options or a function returning them."""


def _project(scene: Scene) -> str:
    return scene.project_id


def _nothing(scene: Scene) -> tuple[()]:
    return ()


def _reply(scene: Scene) -> tuple[int, int]:
    comment_id = scene.file_comment()
    return comment_id, scene.reply(comment_id)


def _upload(scene: Scene) -> dict[str, Any]:
    return {"files": {"file": ("a.txt", b"a file")}}


def _logo(scene: Scene) -> dict[str, Any]:
    return {"files": {"file": ("logo.png", png())}}


def _member(scene: Scene) -> tuple[str, str]:
    scene.owner.post(f"{scene.project_path}/members", json={"username": scene.somebody})
    return scene.project_id, scene.somebody


TABLE: dict[str, Row] = {
    "GET /me": (ALL, _nothing, {}),
    "GET /me/notifications": (ALL, _nothing, {}),
    "POST /me/notifications/{}/read": ((200, 404, 404, 404), Scene.notification, {}),
    "POST /me/notifications/read": (ALL, Scene.notification, {}),
    "GET /me/notification_settings": (ALL, _nothing, {}),
    "PATCH /me/notification_settings": (ALL, _nothing, {"payment": {"inbox": False}}),
    "GET /organizations/{}/members": ((200, 200, 404, 404), lambda scene: scene.organization, {}),
    "GET /organizations/{}/usage": ((200, 403, 404, 404), lambda scene: scene.organization, {}),
    "GET /organizations/{}/export": ((200, 403, 404, 404), lambda scene: scene.organization, {}),
    "GET /organizations/{}/billing": ((200, 403, 404, 404), lambda scene: scene.organization, {}),
    "PATCH /organizations/{}/billing": (OWNERS_HIDDEN, Scene.billed_organization, {"payment_terms": "Soon"}),
    "GET /organizations/{}/members/{}": (OWNERS_HIDDEN, Scene.priced_member, {}),
    "PATCH /organizations/{}/members/{}": (OWNERS_HIDDEN, Scene.priced_member, {"hourly_rate": 1}),
    "PUT /organizations/{}/billing/logo": (OWNERS_HIDDEN, Scene.pictured_organization, _logo),
    "DELETE /organizations/{}/billing/logo": (OWNERS_HIDDEN, Scene.pictured_organization, {}),
    "GET /projects": (ALL, _nothing, {}),
    "POST /projects": (ALL, _nothing, {"title": "New"}),
    "GET /projects/{}": (INSIDE, _project, {}),
    "PATCH /projects/{}": (TEAM_ONLY, _project, {"title": "Edited"}),
    "DELETE /projects/{}": ((200, 403, 404, 404), Scene.project, {}),
    "POST /projects/{}/restore": ((200, 404, 404, 404), Scene.deleted_project, {}),
    "GET /trash": (ALL, _nothing, {}),
    "GET /projects/{}/trash": (TEAM_ONLY, _project, {}),
    "GET /projects/{}/activity": (TEAM_ONLY, _project, {}),
    "GET /projects/{}/members": (TEAM_ONLY, _project, {}),
    "POST /projects/{}/members": (OWNERS, _project, lambda scene: {"username": scene.somebody}),
    "DELETE /projects/{}/members/{}": (OWNERS, _member, {}),
    "GET /projects/{}/clients": (TEAM_ONLY, _project, {}),
    "POST /projects/{}/clients": (OWNERS, _project, lambda scene: {"email": scene.new_email()}),
    "GET /clients/{}": (TEAM, Scene.client, {}),
    "DELETE /clients/{}": (TEAM, Scene.client, {}),
    "GET /projects/{}/columns": (INSIDE, _project, {}),
    "POST /projects/{}/columns": (TEAM_ONLY, _project, {"title": "New"}),
    "GET /columns/{}": (INSIDE, Scene.column, {}),
    "PATCH /columns/{}": (TEAM_ONLY, Scene.column, {"title": "Edited"}),
    "DELETE /columns/{}": (TEAM_ONLY, Scene.column, {}),
    "GET /columns/{}/tasks": (INSIDE, Scene.column, {}),
    "POST /columns/{}/tasks": (INSIDE, Scene.column, {"title": "New"}),
    "GET /projects/{}/tasks": (INSIDE, _project, {}),
    "GET /tasks/{}": (INSIDE, Scene.task, {}),
    "PATCH /tasks/{}": (TEAM_ONLY, Scene.task, {"title": "Edited"}),
    "DELETE /tasks/{}": (TEAM_ONLY, Scene.task, {}),
    "POST /tasks/{}/restore": (TEAM_ONLY, Scene.deleted_task, {}),
    "POST /tasks/bulk": (
        (200, 200, 200, 422),
        _nothing,
        lambda scene: {"operations": [{"action": "create", "column_id": scene.column(), "title": "New"}]},
    ),
    "GET /tasks/{}/task_comments": (INSIDE, Scene.task, {}),
    "POST /tasks/{}/task_comments": (INSIDE, Scene.task, {"text": "Said"}),
    "PATCH /task_comments/{}": (AUTHOR, Scene.task_comment, {"text": "Else"}),
    "DELETE /task_comments/{}": (AUTHOR, Scene.task_comment, {}),
    "GET /projects/{}/files": (INSIDE, _project, {}),
    "POST /projects/{}/files": (INSIDE, _project, _upload),
    "GET /tasks/{}/files": (INSIDE, Scene.task, {}),
    "GET /files/{}": (INSIDE, Scene.file, {}),
    "GET /files/{}/content": (INSIDE, Scene.file, {}),
    "PATCH /files/{}": (TEAM_ONLY, Scene.file, {"title": "Edited"}),
    "DELETE /files/{}": (TEAM_ONLY, Scene.file, {}),
    "POST /files/{}/restore": (TEAM_ONLY, Scene.deleted_file, {}),
    "GET /projects/{}/folders": (INSIDE, _project, {}),
    "POST /projects/{}/folders": (TEAM_ONLY, _project, {"title": "Folder"}),
    "PATCH /folders/{}": (TEAM_ONLY, Scene.folder, {"title": "Edited"}),
    "DELETE /folders/{}": (TEAM_ONLY, Scene.folder, {}),
    "GET /files/{}/file_comments": (INSIDE, Scene.file, {}),
    "POST /files/{}/file_comments": (INSIDE, Scene.file, {"text": "Said"}),
    "PATCH /file_comments/{}": (AUTHOR, Scene.file_comment, {"text": "Else"}),
    "DELETE /file_comments/{}": (AUTHOR, Scene.file_comment, {}),
    "POST /file_comments/{}/comments": (INSIDE, Scene.file_comment, {"body": "Yes"}),
    "PATCH /file_comments/{}/comments/{}": (AUTHOR, _reply, {"body": "No"}),
    "DELETE /file_comments/{}/comments/{}": (AUTHOR, _reply, {}),
    "GET /tasks": (ALL, _nothing, {}),
    "GET /timesheets": (ALL, _nothing, {}),
    "GET /timesheets/running": (ALL, _nothing, {}),
    "GET /invoices": (ALL, _nothing, {}),
    "GET /files": (ALL, _nothing, {}),
    "GET /comments": (ALL, _nothing, {}),
    "GET /search": (ALL, _nothing, {"params": {"q": "task"}}),
    "GET /services": (ALL, _nothing, {}),
    "POST /services": (
        (200, 403, 422, 422),
        _nothing,
        lambda scene: {"title": "New", "organization": scene.organization},
    ),
    "GET /services/{}": (TEAM, Scene.service, {}),
    "PATCH /services/{}": (OWNERS_HIDDEN, Scene.service, {"title": "Edited"}),
    "DELETE /services/{}": (OWNERS_HIDDEN, Scene.service, {}),
    "GET /projects/{}/service_checkouts": (INSIDE, _project, {}),
    "POST /projects/{}/service_checkouts": (TEAM_ONLY, _project, lambda scene: {"service_id": scene.service()}),
    "GET /service_checkouts/{}": (INSIDE, Scene.checkout, {}),
    "POST /service_checkouts/{}/complete": (TEAM_ONLY, Scene.checkout, {}),
    "POST /service_checkouts/{}/pause": (TEAM_ONLY, lambda scene: scene.checkout("complete"), {}),
    "POST /service_checkouts/{}/unpause": (TEAM_ONLY, lambda scene: scene.checkout("complete", "pause"), {}),
    "POST /service_checkouts/{}/cancel": (TEAM_ONLY, lambda scene: scene.checkout("complete"), {}),
    "DELETE /service_checkouts/{}": (TEAM_ONLY, Scene.checkout, {}),
    "GET /projects/{}/task_credits": (TEAM, _project, {}),
    "POST /projects/{}/task_credits": (TEAM, _project, {"amount": 5}),
    "GET /projects/{}/task_credits/balance": (TEAM, _project, {}),
    "DELETE /task_credits/{}": (TEAM, Scene.credit, {}),
    "GET /projects/{}/billing": (TEAM, _project, {}),
    "PATCH /projects/{}/billing": (OWNERS_HIDDEN, Scene.billed_project, {"currency": "CHF"}),
    "GET /projects/{}/budget": (TEAM, _project, {}),
    "GET /projects/{}/invoices": (INSIDE, _project, {}),
    "POST /projects/{}/invoices": (TEAM_ONLY, _project, {"bill_to": "Client"}),
    "GET /invoices/{}": (INSIDE, lambda scene: scene.invoice("send"), {}),
    "PATCH /invoices/{}": (TEAM, Scene.invoice, {"bill_to": "Else"}),
    "DELETE /invoices/{}": (TEAM, Scene.invoice, {}),
    "POST /invoices/{}/send": (TEAM, Scene.invoice, {}),
    "POST /invoices/{}/pay": (TEAM_ONLY, lambda scene: scene.invoice("send"), {}),
    "GET /invoices/{}/payments": (INSIDE, lambda scene: scene.invoice("send", "pay"), {}),
    "POST /invoices/{}/payments": (TEAM_ONLY, lambda scene: scene.invoice("send"), {"amount": 0.5}),
    "GET /payments/{}": (INSIDE, Scene.payment, {}),
    "POST /payments/{}/refund": (TEAM_ONLY, Scene.payment, {}),
    "GET /invoices/{}/credit_notes": (INSIDE, lambda scene: scene.invoice("send"), {}),
    "POST /invoices/{}/credit_notes": (TEAM_ONLY, Scene.invoice_to_credit, {"reason": "Late"}),
    "GET /credit_notes/{}": (INSIDE, Scene.credit_note, {}),
    "GET /credit_notes/{}/pdf": (INSIDE, Scene.credit_note, {}),
    "GET /credit_notes/{}/xml": (INSIDE, Scene.e_credit_note, {}),
    "GET /invoices/{}/xml": (INSIDE, Scene.e_invoice, {}),
    "POST /invoices/{}/void": (TEAM_ONLY, lambda scene: scene.invoice("send"), {}),
    "GET /invoices/{}/pdf": (INSIDE, lambda scene: scene.invoice("send"), {}),
    "GET /projects/{}/timesheets": (TEAM, _project, {}),
    "POST /projects/{}/timesheets": (TEAM, _project, lambda scene: {"task_id": scene.task(), "duration": 1000}),
    "GET /timesheets/{}": (TEAM, Scene.timesheet, {}),
    "PATCH /timesheets/{}": (TEAM, Scene.timesheet, {"notes": "Photos"}),
    "DELETE /timesheets/{}": (TEAM, Scene.timesheet, {}),
    "POST /timesheets/{}/pause": (TEAM, Scene.running, {}),
    "POST /timesheets/{}/resume": (TEAM, Scene.paused, {}),
    "POST /timesheets/{}/finish": (TEAM, Scene.running, {}),
    "GET /reports/timesheets": (ALL, _nothing, {}),
}
