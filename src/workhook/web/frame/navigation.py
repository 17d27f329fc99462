"""The tabs of a project and of an organization."""

from __future__ import annotations

from typing import NamedTuple

from workhook.identity.schemas import Account
from workhook.web.frame.texts import gettext
from workhook.work.kernel.access import Access


class Tab(NamedTuple):
    """A tab. `path` is relative to the project or organization. `go` is the key after `g` in its shortcut."""

    name: str
    path: str
    icon: str
    label: str
    go: str = ""


def places_of(access: Access) -> list[Tab]:
    """Return the tabs of a project that the visitor may see."""
    places = [Tab("board", "", "square-kanban", gettext("Board"), "b")]
    places.append(Tab("list", "/list", "list", gettext("List"), "l"))
    places.append(Tab("calendar", "/calendar", "calendar-days", gettext("Calendar"), "c"))
    if not access.is_client:
        places.append(Tab("activity", "/activity", "activity", gettext("Activity"), "a"))
        places.append(Tab("time", "/time", "clock", gettext("Time"), "t"))
    places.append(Tab("files", "/files", "folder", gettext("Files"), "f"))
    places.append(Tab("billing", "/billing", "receipt", gettext("Billing")))
    if access.repository.role == "admin":
        places.append(Tab("webhooks", "/webhooks", "webhook", gettext("Webhooks"), "w"))
    if not access.is_client:
        places.append(Tab("trash", "/trash", "trash-2", gettext("Trash")))
    if access.repository.role == "admin":
        places.append(Tab("settings", "/settings", "settings", gettext("Settings")))
    return places


def places_of_billing(access: Access, *, sees_services: bool) -> list[Tab]:
    """Return the tabs of a project's billing. People of its owner see services, by a path relative to the owner."""
    places = [Tab("invoices", "/billing", "receipt", gettext("Invoices"))]
    places.append(Tab("subscriptions", "/billing/subscriptions", "repeat", gettext("Subscriptions")))
    if not access.is_client:
        places.append(Tab("credits", "/billing/credits", "coins", gettext("Credits")))
    if sees_services:
        places.append(Tab("services", "/-/services", "tag", gettext("Services")))
    return places


def places_of_organization(account: Account, role: str | None) -> list[Tab]:
    """Return the tabs of an organization for a role; empty for users and people without a role."""
    if account.kind != "organization" or role is None:
        return []
    places = [Tab("projects", "", "folder", gettext("Projects")), Tab("people", "/people", "users", gettext("People"))]
    places.append(Tab("services", "/-/services", "tag", gettext("Services")))
    if role == "owner":
        places.append(Tab("webhooks", "/-/webhooks", "webhook", gettext("Webhooks"), "w"))
        places.append(Tab("audit", "/audit", "history", gettext("Audit log")))
        places.append(Tab("settings", "/settings", "settings", gettext("Settings")))
    return places
