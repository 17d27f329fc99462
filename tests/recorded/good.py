"""A valid request for every operation of the OpenAPI document.

`tests/recorded/test_recorded.py` lists the operations that have none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.recorded.things import CALLBACK, FULL, Things
from tests.work.paper import png

WORK = "/api/v1"
NOTHING_TO_SEND: dict[str, Any] = {}
Given = Mapping[str, Any] | Callable[[Things], Mapping[str, Any]]


@dataclass(frozen=True)
class Good:
    """A valid request. `more` are arguments of the HTTP client: json, data, files, params and headers."""

    names: Mapping[str, Any]
    by: str
    more: Mapping[str, Any] = field(default_factory=dict)


# Request bodies by operation. GET and DELETE have none.
_JSON: dict[str, Given] = {
    "POST /projects": {"title": "New", "organization": "acme"},
    "PATCH /projects/{id}": {"title": "Edited"},
    "POST /projects/{id}/members": lambda things: {"username": things.member()},
    "POST /projects/{id}/clients": lambda things: {"email": f"new-client-{next(things.numbers)}@example.com"},
    "POST /projects/{id}/columns": {"title": "New", "stage": "in_progress", "finished": False, "position": 0},
    "PATCH /columns/{id}": {"title": "Edited"},
    "POST /columns/{id}/tasks": {
        "title": "New", "description": "Text", "priority": "high", "deadline": "2040-02-03T04:05:06Z",
        "fields": {"Size": "L"}, "labels": ["urgent"], "assignees": ["octo"],
        "sections": {"Steps": {"First": "done"}},
    },
    "PATCH /tasks/{id}": lambda things: {"title": "Edited", "column_id": things.column(), "assignees": ["octo"]},
    "POST /tasks/bulk": lambda things: {
        "operations": [
            {"action": "create", "column_id": things.column(), "title": "New"},
            {"action": "edit", "id": things.task(), "title": "Edited"},
            {"action": "delete", "id": things.task()},
        ]
    },
    "POST /tasks/{id}/task_comments": {"text": "Said, @octo"},
    "PATCH /task_comments/{id}": {"text": "Else"},
    "PATCH /files/{id}": lambda things: {"title": "Edited", "folder": things.folder()},
    "POST /projects/{id}/folders": {"title": "Folder"},
    "PATCH /folders/{id}": {"title": "Edited"},
    "POST /files/{file_id}/file_comments": {"text": "Said"},
    "PATCH /file_comments/{file_comment_id}": {"text": "Else"},
    "POST /file_comments/{file_comment_id}/comments": {"body": "Yes"},
    "PATCH /file_comments/{file_comment_id}/comments/{id}": {"body": "No"},
    "POST /services": {"title": "New", "organization": "acme"},
    "PATCH /services/{id}": {"title": "Edited", "addon": True},
    "POST /projects/{id}/service_checkouts": lambda things: {"service_id": things.service()},
    "POST /service_checkouts/{id}/cancel": {"reason": "Too dear", "feedback": "None"},
    "POST /projects/{id}/task_credits": {"amount": 5, "notes": "A gift"},
    "PATCH /organizations/{login}/billing": {"legal_name": "Acme Studio", "currency": "EUR"},
    "PATCH /organizations/{login}/members/{username}": {"hourly_rate": 90},
    "PATCH /projects/{id}/billing": {"buyer": {"name": "Client"}, "payment_days": 14},
    "POST /projects/{id}/invoices": lambda things: {
        "bill_to": "Client", "tax": 20, "due": "2040-01-31",
        "invoice_items": [{"description": "Work", "qty": 2, "unit_price": 10.5}],
        "timesheet_ids": [things.timesheet()],
    },
    "POST /invoices/{invoice_id}/credit_notes": {"reason": "Late"},
    "PATCH /invoices/{invoice_id}": {"bill_to": "Else"},
    "POST /projects/{id}/timesheets": lambda things: {"task_id": things.task(), "duration": 1000, "billable": True},
    "PATCH /timesheets/{id}": {"notes": "Photos"},
}  # fmt: skip
_JSON = {f"{key.split()[0]} {WORK}{key.split()[1]}": body for key, body in _JSON.items()}

_HOOK_JSON: dict[str, Given] = {
    "POST {}/hooks": lambda things: {
        "name": "web", "config": {"url": f"http://127.0.0.1:9/{next(things.numbers)}"}, "active": False,
    },
    "PATCH {}/hooks/{hook_id}": {"events": ["push"], "active": False},
    "PATCH {}/hooks/{hook_id}/config": {"content_type": "form", "insecure_ssl": "1"},
    "POST {}/events": {"event": "fork", "payload": {"of": "acme/website"}, "action": "done"},
    "POST {}/dispatches": {"event_type": "build", "client_payload": {"tag": "v1"}},
}  # fmt: skip
_JSON |= {
    key.replace("{}", place, 1): body
    for place in ("/repos/{owner}/{repo}", "/orgs/{org}")
    for key, body in _HOOK_JSON.items()
}
_JSON |= {
    "POST /graphql": {"query": "{viewer{login}}"},
    "POST /user/tokens": {"note": "New", "scopes": ["work"]},
    "PATCH /user/memberships/orgs/{org}": {"state": "active"},
    "PUT /orgs/{org}/memberships/{username}": {"role": "member"},
    "POST /admin/users": lambda things: {
        "login": f"added-{next(things.numbers)}", "email": "added@example.com"
    },
    "POST /admin/organizations": lambda things: {"login": f"place-{next(things.numbers)}", "admin": "pat"},
    "POST /orgs/{org}/invitations": lambda things: {"email": f"new-{next(things.numbers)}@example.com"},
    "PUT /repos/{owner}/{repo}/collaborators/{username}": {"permission": "push"},
    "PATCH /repos/{owner}/{repo}/invitations/{invitation_id}": {"permissions": "read"},
    "POST /orgs/{org}/oauth-apps": lambda things: {"name": f"Tool {next(things.numbers)}", "callback_urls": [CALLBACK]},
    "PATCH /orgs/{org}/oauth-apps/{client_id}": {"description": "Edited"},
    "POST /orgs/{org}/apps": lambda things: {"name": f"Worker {next(things.numbers)}", "permissions": {"work": "read"}},
    "PATCH /orgs/{org}/apps/{slug}": {"description": "Edited"},
    "POST /orgs/{org}/installations": lambda things: {"app": things.new_app()["slug"], "permissions": FULL},
    "PATCH /orgs/{org}/installations/{installation_id}": {
        "repository_selection": "selected", "repositories": ["website"],
    },
    "POST /app/installations/{installation_id}/access_tokens": {"permissions": {"work": "read"}},
    "POST /login/device/code": lambda things: {"client_id": things.oauth[0], "scope": "work"},
    "POST /login/oauth/access_token": lambda things: {
        "client_id": things.oauth[0], "client_secret": things.oauth[1], "code": things.browser.consent(things.oauth[0]),
    },
    **{
        f"{method} /applications/{{client_id}}/{ending}": lambda things: {
            "access_token": things.new_user_token(things.oauth)
        }
        for method, ending in (("POST", "token"), ("PATCH", "token"), ("DELETE", "token"), ("DELETE", "grant"))
    },
    "POST /applications/{client_id}/token/scoped": lambda things: {
        "access_token": things.by["app_user"].split()[1], "target": "acme", "permissions": {"work": "read"},
    },
}  # fmt: skip
_OTHERWISE: dict[str, dict[str, Any]] = {
    "POST /api/v1/projects/{id}/files": {
        "files": {"file": ("b.txt", b"another file", "text/plain")}, "data": {"title": "B"},
    },
    "PUT /api/v1/organizations/{login}/billing/logo": {"files": {"file": ("logo.png", png(), "image/png")}},
    "PATCH /api/v1/me/notification_settings": {"json": {"payment": {"inbox": False}}},
    "GET /api/v1/search": {"params": {"q": "task"}},
    "GET /api/v1/reports/timesheets": {"params": {"group_by": "task"}},
    "GET /orgs/{org}/audit-log": {"params": {"per_page": "5", "order": "asc"}},
}  # fmt: skip

# Callers other than the owner.
_BY = {
    "PATCH /user/memberships/orgs/{org}": "pat",
    "GET /user/repository_invitations": "pat",
    "PATCH /user/repository_invitations/{invitation_id}": "pat",
    "DELETE /user/repository_invitations/{invitation_id}": "pat",
    f"POST {WORK}/me/notifications/{{notification_id}}/read": "pat",
    "GET /installation/repositories": "installation",
    "DELETE /installation/token": "installation",
    "GET /user/installations": "app_user",
    "GET /user/installations/{installation_id}/repositories": "app_user",
}

# Requests that must precede the operation on a record: the method, and what is appended to the record's path.
_BEFORE: dict[str, tuple[tuple[str, str], ...]] = {
    **{f"POST {WORK}/{each}/{{id}}/restore": (("DELETE", ""),) for each in ("projects", "tasks", "files")},
    **{
        f"POST {WORK}/service_checkouts/{{id}}/{each}": (("POST", "/complete"), *more)
        for each, more in (("pause", ()), ("unpause", (("POST", "/pause"),)), ("cancel", ()))
    },
    **{
        f"POST {WORK}/invoices/{{invoice_id}}/{each}": (("POST", "/send"),)
        for each in ("pay", "void", "payments", "credit_notes")
    },
    f"GET {WORK}/invoices/{{invoice_id}}/xml": (("POST", "/send"),),
    f"POST {WORK}/timesheets/{{id}}/resume": (("POST", "/pause"),),
}

_RECORDS: dict[str, Callable[[Things], Any]] = {
    "notifications": Things.notification,
    "projects": lambda things: things.project_id,
    "columns": Things.column,
    "tasks": Things.task,
    "task_comments": Things.task_comment,
    "files": Things.file,
    "folders": Things.folder,
    "file_comments": Things.file_comment,
    "services": Things.service,
    "service_checkouts": Things.checkout,
    "task_credits": Things.credit,
    "invoices": Things.invoice,
    "payments": Things.payment,
    "credit_notes": Things.credit_note,
    "timesheets": Things.timesheet,
    "clients": Things.client,
}


def good(things: Things, key: str) -> Good:
    """Return a valid request about objects that are created for it."""
    method, path = key.split()
    if _BY.get(key) in ("installation", "app_user") or path.endswith("/token/scoped"):
        things.renew_tokens()
    names = _work_names(things, key) if path.startswith(WORK) else _webhook_names(things, key)
    body = _JSON.get(key, NOTHING_TO_SEND)
    sent = body(things) if callable(body) else body
    more = _OTHERWISE.get(key) or ({"json": sent} if sent or method in ("POST", "PATCH") else {})
    return Good(names, _BY.get(key) or _kind(path), more)


def _kind(path: str) -> str:
    if path.startswith("/applications/"):
        return "client of the app" if path.endswith("/scoped") else "client"
    return "app" if re.match(r"/app(/|$)|.*/installation$", path) else "owner"


def _work_names(things: Things, key: str) -> dict[str, Any]:
    _, path = key.split()
    names: dict[str, Any] = {}
    if path.endswith("/xml"):
        things.name_parties()
    for noun, name in re.findall(r"/(\w+)/\{(\w+)\}", path):
        if noun in ("members", "organizations"):
            names[name] = things.member() if noun == "members" else things.fixed[name]
        elif noun == "comments":
            names[name] = things.reply(names["file_comment_id"])
        elif noun == "projects" and ((key.startswith("DELETE") and path.endswith("}")) or path.endswith("/restore")):
            names[name] = things.new_project() if path.count("{") == 1 else things.project_id
        elif noun == "timesheets" and path.endswith(("/pause", "/resume", "/finish")):
            names[name] = things.timesheet(duration=None)
        else:
            names[name] = _RECORDS[noun](things)
    if "/projects/{id}/members/{username}" in path:
        things.made("member", f"{things.project}/members", json={"username": names["username"]})
    if key in _BEFORE:
        record = path.removeprefix(WORK).rpartition("/")[0].format(**names)
        things.after(record, *_BEFORE[key])
    return names


_PEOPLE: dict[str, Callable[[Things], Any]] = {
    "PATCH /user/memberships/orgs/{org}": Things.asked_to_join,
    "PUT /orgs/{org}/memberships/{username}": Things.outside,
    "DELETE /orgs/{org}/memberships/{username}": Things.member,
    "DELETE /orgs/{org}/members/{username}": Things.member,
    "PUT /repos/{owner}/{repo}/collaborators/{username}": Things.outside,
    "DELETE /repos/{owner}/{repo}/collaborators/{username}": Things.collaborator,
    "POST /admin/users/{username}/disable": Things.newcomer,
    "POST /admin/users/{username}/enable": Things.newcomer,
    "DELETE /admin/users/{username}": Things.newcomer,
    "GET /repos/{owner}/{repo}/invitations": Things.work_invitation,
    "GET /user/repository_invitations": Things.work_invitation,
}


def _webhook_names(things: Things, key: str) -> dict[str, Any]:
    method, path = key.split()
    asked = re.findall(r"\{(\w+)\}", path)
    names = {name: things.fixed[name] for name in asked if name in things.fixed}
    if key in _PEOPLE:
        person = _PEOPLE[key](things)
        names |= {"username": person} if "username" in asked else {}
    elif key in ("DELETE /orgs/{org}", "DELETE /admin/organizations/{org}"):
        names["org"] = things.new_place()
    elif path == "/users/{username}/installation":
        names["username"] = "acme"
    place = path.partition("/hooks")[0].format(**names) if "/hooks/" in path else ""
    for name in asked:
        if name == "hook_id":
            names[name] = _hook(things, path, place)
        elif name == "delivery_id":
            names[name] = things.delivery(place, names["hook_id"])
        elif name == "redelivery_id":
            names[name] = things.redelivery(place, names["hook_id"])
        elif name not in names:
            names[name] = _app_name(things, method, path, name, names)
    if method == "DELETE" and path.endswith("/suspended"):
        things.succeed("PUT", path.format(**names), _kind(path))
    return names


def _hook(things: Things, path: str, place: str) -> int:
    if "/oauth-hooks/" in path:  # created by an OAuth app on behalf of the owner
        things.by["oauth"] = f"Bearer {things.new_user_token(things.oauth)}"
        return things.new_hook("/orgs/acme", "oauth")
    return things.new_hook(place)


def _app_name(things: Things, method: str, path: str, name: str, names: dict[str, Any]) -> Any:
    ends = method in ("DELETE", "POST", "PATCH") or name in ("secret_id", "key_id")
    if name == "client_id":
        if ends and path.startswith("/orgs"):
            return things.new_oauth_app()
        return things.app["client_id"] if path.endswith("/scoped") else things.oauth[0]
    if name == "slug":
        return things.new_app()["slug"] if ends else things.app["slug"]
    if name in ("secret_id", "key_id"):
        return things.newest(path.format(**{**names, name: ""}).rstrip("/"))
    if name == "installation_id":
        if path.startswith("/user/") and method != "GET":
            return things.on_chosen()
        return things.own_installation() if path.startswith("/app/") or method == "GET" else things.installed()
    if name == "token_id":
        return things.token()
    assert name == "invitation_id", name
    return things.invitation() if path.startswith("/orgs") else things.work_invitation()
