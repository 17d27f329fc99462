"""Hooks as they are stored, what they belong to (`HookOwner`), and how both are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from workhook.core import json
from workhook.core.clock import to_seconds_text
from workhook.core.secrecy import Secretive
from workhook.events.outbox import Draft
from workhook.hooks.config_keys import CONTENT_TYPES, MASK
from workhook.hooks.schemas import AppHookShape, ConfigShape, HookApp, HookShape, LastResponse
from workhook.identity.apps.app_schemas import app_repository_shape, owner_shape
from workhook.identity.schemas import Account, Actor, Repository, organization_shape
from workhook.identity.tokens.issue import OAUTH
from workhook.storage import Row


class HookViewer(msgspec.Struct, frozen=True):
    """Who looks at hooks. An OAuth app sees the hooks that it made; nobody else sees them (Authentication 3 of the
    spec).

    `app_id`: the OAuth app's; None for users and installed apps. `everything`: Workhook itself, and its commands.
    """

    app_id: int | None = None
    everything: bool = False


OPERATOR = HookViewer(everything=True)


def viewer_of(actor: Actor) -> HookViewer:
    return HookViewer(actor.app_id if actor.token_kind == OAUTH.name else None)


class HookOwner(msgspec.Struct, frozen=True):
    """What hooks belong to, a repository or an organization, and the viewer, who may not see all of them."""

    account: Account
    repository: Repository | None = None
    viewer: HookViewer = OPERATOR

    @property
    def target(self) -> str:
        return "repository" if self.repository else "organization"

    @property
    def repository_id(self) -> int | None:
        return self.repository.id if self.repository else None

    @property
    def path(self) -> str:
        return f"/repos/{self.repository.full_name}" if self.repository else f"/orgs/{self.account.login}"

    @property
    def organization(self) -> Account | None:
        return self.account if self.account.kind == "organization" else None

    def draft(self, name: str, action: str | None, payload: Mapping[str, object], installation_id: int | None) -> Draft:
        """An event that is appended for a single hook."""
        return Draft(self.account.id, self.repository_id, name, action, payload, installation_id=installation_id)

    def context(self, base: str, sender: Account | None) -> dict[str, object]:
        """The payload's repository, organization and sender, with every key that typed clients expect in events."""
        around: dict[str, object] = {}
        if self.repository:
            around["repository"] = app_repository_shape(self.repository, base, permissions=False)
        if self.organization:
            around["organization"] = organization_shape(self.organization, base)
        around["sender"] = owner_shape(sender, base) if sender else None
        return around


class Hook(Secretive, msgspec.Struct, frozen=True):
    """A row of `hooks`, JSON parsed, secrets still sealed."""

    id: int
    account_id: int
    repository_id: int | None
    active: bool
    events: list[str]
    config: dict[str, str]
    secret: bytes | None
    previous_secret: bytes | None
    previous_secret_until: int | None
    password: bytes | None
    version: int
    created_at: int
    updated_at: int
    app_id: int | None = None  # the OAuth app that made it, which alone sees it
    installation_id: int | None = None

    @property
    def content_type(self) -> Literal["json", "form"]:
        """What the word in the configuration means."""
        return CONTENT_TYPES[self.config.get("content_type", "form")]


HOOK_COLUMNS = Hook.__struct_fields__


def hook_of(row: Row) -> Hook:
    values = {name: row[name] for name in HOOK_COLUMNS}
    values["active"] = bool(values["active"])
    values["events"] = json.decode(values["events"])
    values["config"] = json.decode(values["config"])
    return Hook(**values)


def installation_told(installation_id: int) -> dict[str, object]:
    """`installation` in payloads for a hook that an app made: the installation as which the app may act."""
    return {"id": installation_id, "node_id": f"I_{installation_id}"}


def config_shape(hook: Hook) -> ConfigShape:
    """The configuration with defaults filled in and secrets masked."""
    shape = ConfigShape(content_type="form", insecure_ssl="0")
    for name, value in hook.config.items():
        setattr(shape, name, value)
    if hook.secret is not None:
        shape.secret = MASK
    if hook.password is not None:
        shape.password = MASK
    return shape


UNUSED = LastResponse(code=None, status="unused", message=None)


def hook_shape(hook: Hook, owner: HookOwner, base: str, last: LastResponse = UNUSED) -> HookShape:
    """`base`: the start of links. `last` is shown for repositories' hooks."""
    url = f"{base}{owner.path}/hooks/{hook.id}"
    shape = HookShape(
        type="Repository" if owner.repository else "Organization",
        id=hook.id,
        name="web",
        active=hook.active,
        events=hook.events,
        config=config_shape(hook),
        updated_at=to_seconds_text(hook.updated_at),
        created_at=to_seconds_text(hook.created_at),
        url=url,
        ping_url=f"{url}/pings",
        deliveries_url=f"{url}/deliveries",
    )
    if owner.repository:
        shape.test_url = f"{url}/test"
        shape.last_response = last
    return shape


def app_hook_shape(shape: HookShape, client_id: str, name: str, owner: HookOwner) -> AppHookShape:
    return AppHookShape(
        **msgspec.structs.asdict(shape),
        app=HookApp(client_id, name),
        repository=owner.repository.full_name if owner.repository else None,
    )


def last_response_of(row: Row | None) -> LastResponse:
    """`row`: the status and code of the newest delivery."""
    if row is None:
        return UNUSED
    if 200 <= row["status_code"] < 300:
        return LastResponse(row["status_code"], "active", "OK")
    status = "timeout" if row["status"] == "timed out" else "failure"
    return LastResponse(row["status_code"], status, row["status"])


def plain_config(shown: Mapping[str, str | None]) -> dict[str, str]:
    """The settings that are not None."""
    return {name: value for name, value in shown.items() if value is not None}
