"""What an entry of the audit log says to a person: a refused page, and what a change of a webhook has changed."""

from __future__ import annotations

from typing import Any

from workhook.identity.audit_actions import VIEW
from workhook.identity.audit_api import AuditEntry
from workhook.web.frame.texts import gettext

_FORMER_PAGES = ("place_", "page_")  # how entries of earlier versions name pages


def is_refused_page(entry: AuditEntry) -> bool:
    """Whether somebody only wanted to see a page, and was not let in."""
    return entry.status is not None and (entry.action == VIEW or entry.action.startswith(_FORMER_PAGES))


def changes(entry: AuditEntry) -> list[str]:
    """A sentence for each field of a webhook that an update has changed; none for other entries."""
    names = entry.data.get("changed")
    if entry.action != "hook.update" or not isinstance(names, list):
        return []
    return [_sentence(str(name), entry.data) for name in names]


def _sentence(name: str, data: dict[str, Any]) -> str:
    done = data.get("secrets", {}).get(name)
    if name == "config.secret":
        return _secret(done)
    if name == "config.password":
        return _password(done)
    if name == "config.previous_secret":
        return gettext("The secret before does not sign any more.")
    if name == "active":
        return gettext("It was turned on.") if data.get("active") else gettext("It was turned off.")
    before = data.get("before", {})
    if name not in before:  # a webhook of an app, whose settings are not told
        return gettext("%(setting)s was changed.") % {"setting": _label(name)}
    plain, _, key = name.partition(".")
    after = data.get(plain, {}).get(key) if key else data.get(plain)
    values = {"setting": _label(name), "before": _shown(before[name]), "after": _shown(after)}
    return gettext("%(setting)s: %(before)s → %(after)s") % values


def _secret(done: str | None) -> str:
    if done == "removed":
        return gettext("The secret was removed. Nothing is signed.")
    return gettext("A secret was set.") if done == "set" else gettext("The secret was changed.")


def _password(done: str | None) -> str:
    if done == "removed":
        return gettext("The password was removed.")
    return gettext("A password was set.") if done == "set" else gettext("The password was changed.")


def _label(name: str) -> str:
    """As the form of a webhook calls it."""
    known = {
        "events": gettext("Events"),
        "config.url": gettext("Address of the receiver"),
        "config.content_type": gettext("Content type"),
        "config.insecure_ssl": gettext("Certificate of the receiver"),
        "config.header_style": gettext("Names of the headers"),
        "config.username": gettext("User name (basic authentication)"),
        "config.retries": gettext("Retries after a failure"),
        "config.max_concurrency": gettext("Deliveries at the same time"),
        "config.rate_limit": gettext("Most deliveries a second"),
    }
    return known.get(name, name)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return gettext("none") if value in (None, "") else str(value)
