"""The pages of the web app with pictures, roughly in the order of docs/team/places.md, and those without pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

Who = Literal["ada", "ines", "nobody", "first"]
"""The owner, the client, a visitor who has not signed in, and the first user of a server without data."""

_PROJECT = "/{owner}/{project}"
_TODAY = datetime.now(UTC).date()
LAST_WEEK = _TODAY - timedelta(days=7)
CALENDAR = _TODAY + timedelta(days=5)  # near most of the deadlines


@dataclass(frozen=True)
class Place:
    """A page to take a picture of.

    `path` is the operation's path, filled in from `Demo.names`; `other` maps its names to different ones. `card` is the
    title of a card to click, and `height` the height of a desktop window.
    """

    name: str
    path: str
    who: Who = "ada"
    query: str = ""
    other: Mapping[str, str] = field(default_factory=dict)
    card: str = ""
    height: int = 800

    def address(self, names: Mapping[str, str]) -> str:
        known = {**names, **{name: names[value] for name, value in self.other.items()}}
        return self.path.format(**known) + self.query


PLACES = (
    Place("login", "/login", "nobody"),
    Place("welcome", "/welcome", "first"),
    Place("welcome-project", "/welcome/project", "first"),
    Place("welcome-webhook", "/welcome/webhook", "first"),
    Place("my-work", "/"),
    Place("all-tasks", "/tasks"),
    Place("all-invoices", "/invoices"),
    Place("own-time", "/time", query=f"?week={LAST_WEEK}"),
    Place("inbox", "/inbox"),
    Place("search", "/search", query="?q=ticket"),
    Place("organization", "/{owner}"),
    Place("people", "/{owner}/people"),
    Place("organization-settings", "/{owner}/settings"),
    Place("billing-settings", "/{owner}/settings/billing", height=1100),
    Place("export", "/{owner}/settings/export"),
    Place("oauth-app", "/{owner}/settings/oauth-apps/{client_id}"),
    Place("app", "/{owner}/settings/apps/{slug}", height=1100),
    Place("installation", "/{owner}/settings/installations/{installation_id}"),
    Place("services", "/{owner}/-/services"),
    Place("service", "/{owner}/-/services/{service_id}"),
    Place("audit", "/{owner}/audit"),
    Place("deleted-projects", "/{owner}/-/trash"),
    Place("import", "/{owner}/-/import"),
    Place("board", _PROJECT),
    Place("task-over-board", _PROJECT, card="Ticket shop: seat map on phones"),
    Place("task", f"{_PROJECT}/tasks/{{task_id}}", height=1600),
    Place("list", f"{_PROJECT}/list"),
    Place("calendar", f"{_PROJECT}/calendar", query=f"?month={CALENDAR:%Y-%m}"),
    Place("calendar-feed", f"{_PROJECT}/calendar/feed"),
    Place("files", f"{_PROJECT}/files"),
    Place("file", f"{_PROJECT}/files/{{file_id}}", height=1100),
    Place("time", f"{_PROJECT}/time", query=f"?week={LAST_WEEK}"),
    Place("time-entry", f"{_PROJECT}/time/{{timesheet_id}}"),
    Place(
        "time-report",
        f"{_PROJECT}/time/report",
        query=f"?from={_TODAY - timedelta(days=13)}&to={_TODAY}",
        height=1100,
    ),
    Place("invoices", f"{_PROJECT}/billing"),
    Place("invoice", f"{_PROJECT}/billing/{{invoice_id}}", height=1100),
    Place("invoice-draft", f"{_PROJECT}/billing/{{invoice_id}}", other={"invoice_id": "draft_id"}, height=1100),
    Place("new-invoice", f"{_PROJECT}/billing/new"),
    Place("subscriptions", f"{_PROJECT}/billing/subscriptions"),
    Place("subscription", f"{_PROJECT}/billing/subscriptions/{{checkout_id}}"),
    Place("credits", f"{_PROJECT}/billing/credits"),
    Place("activity", f"{_PROJECT}/activity"),
    Place("webhooks", f"{_PROJECT}/webhooks"),
    Place("new-webhook", f"{_PROJECT}/webhooks/new"),
    Place("webhook", f"{_PROJECT}/webhooks/{{hook_id}}", height=1100),
    Place("deliveries", f"{_PROJECT}/webhooks/{{hook_id}}/deliveries"),
    Place("delivery", f"{_PROJECT}/webhooks/{{hook_id}}/deliveries/{{delivery_id}}"),
    Place("verify", f"{_PROJECT}/webhooks/{{hook_id}}/verify"),
    Place("event", f"{_PROJECT}/webhooks/events/{{name}}"),
    Place("receiver", f"{_PROJECT}/webhooks/receiver"),
    Place("project-settings", f"{_PROJECT}/settings", height=1100),
    Place("trash", f"{_PROJECT}/trash"),
    Place("settings", "/settings", height=1100),
    Place("notifications", "/settings/notifications"),
    Place("tokens", "/settings/tokens"),
    Place("new-token", "/settings/tokens/new"),
    Place("client-work", "/", "ines"),
    Place("client-board", _PROJECT, "ines"),
    Place("client-task", f"{_PROJECT}/tasks/{{task_id}}", "ines", height=1100),
    Place("client-file", f"{_PROJECT}/files/{{file_id}}", "ines", height=1100),
    Place("client-invoices", f"{_PROJECT}/billing", "ines"),
    Place("client-invoice", f"{_PROJECT}/billing/{{invoice_id}}", "ines"),
    Place("guide", "/docs/guide/{folder}/{name}", "nobody", other={"folder": "guide_folder", "name": "guide_name"}),
    Place("guide-search", "/docs/search", "nobody", query="?q=verify+a+signature"),
    Place("documentation", "/docs", "nobody"),
    Place("api-reference", "/docs", "nobody", query="#create_task"),
)
README = ("board", "delivery")
"""The places whose pictures the README shows, in light and dark."""

_HOOKS = "/{owner}/-/webhooks"
_HOOK = f"{_PROJECT}/webhooks/{{hook_id}}"
_DELIVERY = "/deliveries/{delivery_id}"
_SITES = (_HOOK, f"{_HOOKS}/{{hook_id}}")

UNPICTURED = {
    **dict.fromkeys(
        (
            "/static/{name}",
            "/calendar/{key}/calendar.ics",
            "/{owner}/audit/entries.jsonl",
            f"{_PROJECT}/billing/{{invoice_id}}/pdf",
            f"{_PROJECT}/billing/{{invoice_id}}/xml",
            f"{_PROJECT}/billing/{{invoice_id}}/credit_notes/{{credit_note_id}}/xml",
            f"{_PROJECT}/billing/{{invoice_id}}/credit_notes/{{credit_note_id}}/pdf",
            f"{_PROJECT}/list.csv",
            "/time/entries.csv",
            f"{_PROJECT}/time/report.csv",
            *(f"{site}{_DELIVERY}/{name}" for site in _SITES for name in ("payload.json", "response.txt")),
        ),
        "sends a file",
    ),
    **dict.fromkeys(
        (
            f"{_PROJECT}/live",
            f"{_PROJECT}/webhooks/receiver/newest",
            *(f"{site}/deliveries/newest" for site in _SITES),
            *(f"{site}{_DELIVERY}/next" for site in _SITES),
            *(f"{site}/redeliveries/{{redelivery_id}}/progress" for site in _SITES),
            *(f"{site}/redeliveries/new" for site in _SITES),
            "/login/continue",
            "/login/oidc",
            "/login/oidc/callback",
        ),
        "tells a page something, asks once more, or leads on",
    ),
    **dict.fromkeys(
        (
            "/apps/{slug}/installations/new",
            "/apps/{slug}/installations/new/permissions",
            "/invitations/links/{token}",
            "/login/confirm",
            "/login/device",
            "/login/forgotten",
            "/login/link/{token}",
            "/mail/unsubscribe/{token}",
            "/settings/notifications/confirm/{token}",
            "/login/oauth/authorize",
            "/settings/password",
            *(f"{site}/secret" for site in _SITES),
            *(f"{site}/redeliveries/{{redelivery_id}}" for site in _SITES),
            f"{_PROJECT}/settings/delete",
            f"{_PROJECT}/settings/people/{{login}}/remove",
            "/{owner}/people/{login}/remove",
            "/{owner}/settings/delete",
            "/settings/account/delete",
            "/{owner}/settings/apps/{slug}/delete",
            "/{owner}/settings/installations/{installation_id}/uninstall",
            "/{owner}/settings/oauth-apps/{client_id}/delete",
        ),
        "a step between two places",
    ),
    **dict.fromkeys(
        (
            f"{_PROJECT}/activity/{{event_id}}",
            f"{_PROJECT}/list/{{task_id}}/people",
            f"{_PROJECT}/tasks/{{task_id}}/history",
            f"{_PROJECT}/tasks/{{task_id}}/waits",
            f"{_PROJECT}/billing/{{invoice_id}}/edit",
            f"{_PROJECT}/billing/{{invoice_id}}/lines/{{number}}",
            f"{_PROJECT}/billing/subscriptions/new",
            f"{_PROJECT}/settings/billing",
            "/settings/billing",
            "/settings/account",
            "/settings/administration",
            "/{owner}/-/services/new",
            "/{owner}/settings/apps",
            "/{owner}/settings/installations",
            "/{owner}/settings/new-app",
            "/{owner}/settings/new-oauth-app",
            "/{owner}/settings/oauth-apps",
        ),
        "a part, a form or a short list of a place that has one",
    ),
    **dict.fromkeys(
        (
            _HOOKS,
            f"{_HOOKS}/new",
            f"{_HOOKS}/events/{{name}}",
            f"{_HOOKS}/{{hook_id}}",
            f"{_HOOKS}/{{hook_id}}/verify",
            f"{_HOOKS}/{{hook_id}}/deliveries",
            f"{_HOOKS}/{{hook_id}}{_DELIVERY}",
            "/docs/guide/{name}",
        ),
        "looks as another one does: webhooks of a project, a page in a folder of the guide",
    ),
}
"""Paths of pages without a picture, with the reason."""
