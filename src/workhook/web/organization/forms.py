"""The form of an app, and its conversion to and from the API's body, which shares its checks."""

from __future__ import annotations

from collections.abc import Mapping

from workhook.identity.apps import app_schemas as s
from workhook.identity.apps.schemas import LEVELS, App
from workhook.identity.policy import PERMISSIONS
from workhook.web.frame.forms import PageForm
from workhook.web.frame.places import Visit
from workhook.web.frame.texts import gettext, text

PERMISSION = "permission."
"""The prefix of a permission's field."""
_TEXTS = ("name", "description", "homepage_url", "callback_urls", "public_key")
FIELDS = frozenset({*_TEXTS, "permissions", "public"})
_LABELS = {
    "repository_hooks": (text("Project webhooks"), text("including their deliveries")),
    "organization_hooks": (text("Organization webhooks"), text("including all events and the audit log")),
    "work": (text("Work"), text("projects, tasks, files, time, and billing")),
}
_LEVELS = {"": text("no access"), "read": text("read"), "write": text("read and write")}


class AppForm(PageForm):
    """The form of an app with its options."""

    device_flow: bool = False
    public: bool = False
    permissions: Mapping[str, str] = {}


def form_of(app: App) -> AppForm:
    """Return the form with the stored values."""
    values = {"name": app.name, "description": app.description or "", "homepage_url": app.homepage_url or ""}
    values["callback_urls"] = "\n".join(app.callback_urls)
    return AppForm(values, device_flow=app.device_flow, public=app.public, permissions=app.permissions)


def form_again(sent: PageForm) -> AppForm:
    """Return the submitted form with its errors."""
    fields = sent.values
    values = {name: fields.get(name, "") for name in _TEXTS}
    values["public_key"] = shown_key(values["public_key"])
    return AppForm(
        values,
        sent.faults,
        sent.problems,
        status=sent.status,
        device_flow="device_flow" in fields,
        public="public" in fields,
        permissions=_permissions(fields),
    )


def shown_key(typed: str) -> str:
    """Return the typed key, or an empty text for a private one."""
    return "" if "PRIVATE KEY" in typed else typed


def create_of(visit: Visit, kind: str) -> s.OauthAppCreate:
    """Read a new OAuth app, or a new app as `AppCreate`. Raises `Invalid`."""
    values = _values(visit.fields, kind)
    if kind == "oauth":
        return visit.form(s.OauthAppCreate, **values)
    return visit.form(s.AppCreate, "public_key", **values)


def edit_of(visit: Visit, kind: str) -> s.OauthAppEdit:
    """Read an edit of an OAuth app, or of an app as `AppEdit`. Raises `Invalid`."""
    return visit.form(s.OauthAppEdit if kind == "oauth" else s.AppEdit, **_values(visit.fields, kind))


def _values(fields: Mapping[str, str], kind: str) -> dict[str, object]:
    values: dict[str, object] = {
        "name": fields.get("name", "").strip(),
        "description": fields.get("description", "").replace("\r\n", "\n").strip() or None,
        "homepage_url": fields.get("homepage_url", "").strip() or None,
        "callback_urls": [line for each in fields.get("callback_urls", "").splitlines() if (line := each.strip())],
        "device_flow": "device_flow" in fields,
    }
    if kind == "app":
        values |= {"permissions": _permissions(fields), "public": "public" in fields}
    return values


def _permissions(fields: Mapping[str, str]) -> dict[str, str]:
    given = {name: fields.get(PERMISSION + name, "") for name in PERMISSIONS}
    return {name: level for name, level in given.items() if level}


def permissions() -> tuple[list[tuple[str, ...]], list[tuple[str, str]]]:
    """Return the name, label and hint of each permission, and the value and label of each level."""
    named = [(name, *map(gettext, _LABELS[name])) for name in PERMISSIONS]
    return named, [(level, gettext(_LEVELS[level])) for level in ("", *LEVELS)]


def in_words(granted: Mapping[str, str]) -> list[str]:
    """Return a phrase for each granted permission."""
    return [
        f"{gettext(_LABELS[name][0])}: {gettext(_LEVELS[granted[name]])}"
        for name in PERMISSIONS
        if granted.get(name) in LEVELS
    ]
