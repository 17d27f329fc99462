"""What an app is let do by each scope and permission, in words for the person who decides."""

from __future__ import annotations

from collections.abc import Mapping

from workhook.identity.apps.schemas import App
from workhook.web.frame.texts import gettext, text

SCOPE_WORDS: Mapping[str, str] = {
    "repo": text(
        "Publish events of every repository that you can write to, and manage the webhooks of those you administer"
    ),
    "admin:repo_hook": text("Create, change and delete webhooks of your repositories, and publish events of them"),
    "write:repo_hook": text("Create and change webhooks of your repositories, and publish events of them"),
    "read:repo_hook": text("See webhooks of your repositories and what they delivered"),
    "admin:org_hook": text(
        "Manage the webhooks of organizations that you own, publish events of them, see their audit log"
    ),
    "admin:org": text("See the audit log of organizations that you own"),
    "work": text(
        "See, create, change and delete projects, tasks, files, comments, timesheets, services, checkouts, task "
        "credits, invoices and billing settings; see activity, what was deleted, and who is in projects and in your "
        "organizations; see your notifications and mark them as read; add and remove people and clients of projects, "
        "and make projects private or open to the whole organization; all as far as you can"
    ),
    "work:read": text(
        "See projects, tasks, files, comments, timesheets, services, checkouts, task credits, invoices, billing "
        "settings, activity, what was deleted, your notifications, and who is in projects and in your organizations, "
        "as far as you can"
    ),
}
PERMISSION_WORDS: Mapping[str, str] = {
    "repository_hooks:read": text("See webhooks of repositories and what they delivered"),
    "repository_hooks:write": text("Create, change and delete webhooks of repositories, and publish events of them"),
    "organization_hooks:read": text("See the organization's webhooks and what they delivered"),
    "organization_hooks:write": text(
        "Create, change and delete the organization's webhooks, publish events of it, see its audit log"
    ),
    "work:read": text(
        "See projects, tasks, files, comments, timesheets, services, checkouts, task credits, invoices, billing "
        "settings, activity, what was deleted, and who is in projects and in the organizations"
    ),
    "work:write": text(
        "See, create, change and delete projects, tasks, files, comments, timesheets, services, checkouts, task "
        "credits, invoices and billing settings; see activity, what was deleted, and who is in projects and in the "
        "organizations; for a user who lets it act also add and remove people and clients of projects, and make "
        "projects private or open to the whole organization"
    ),
}


def in_words(app: App, asked: frozenset[str]) -> list[str]:
    """For the page on which a person decides, in an order that stays."""
    words = SCOPE_WORDS if app.is_oauth else PERMISSION_WORDS
    return [gettext(each) for name, each in words.items() if name in asked]
