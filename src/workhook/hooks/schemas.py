"""Stored hooks, their owners (`HookOwner`), and their JSON, in the format of GitHub's API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.disclosure import HiddenRepr
from workhook.events.catalog import HookTarget
from workhook.events.hook_config import CONTENT_TYPES, MASK
from workhook.events.outbox import Draft
from workhook.http.wire_types import Time, Url
from workhook.identity.apps.app_schemas import app_repository_to_response, owner_to_response
from workhook.identity.schemas import Account, Actor, Repository, organization_to_response, shape_of
from workhook.identity.tokens.issue import OAUTH
from workhook.storage import Row


class LastResponse(msgspec.Struct):
    """The outcome of the newest delivery of the last 30 days, or `unused` without any."""

    code: Annotated[int | None, Meta(description="Status code of the receiver's answer.", examples=[200])]
    status: Annotated[str, Meta(description="`unused`, `active`, `failure`, or `timeout`.", examples=["active"])]
    message: Annotated[str | None, Meta(description="`OK`, or the reason for the failure.", examples=["OK"])]


class ConfigShape(msgspec.Struct, omit_defaults=True):
    """A webhook's configuration. Secrets are masked; settings without a value are omitted."""

    url: Annotated[str | UnsetType, Meta(description="The receiver.", examples=["https://example.com/webhook"])] = UNSET
    content_type: Annotated[
        Literal["json", "form", "application/json", "application/x-www-form-urlencoded"] | UnsetType,
        Meta(description="How payloads are sent.", examples=["json"]),
    ] = UNSET
    insecure_ssl: Annotated[
        Literal["0", "1"] | UnsetType, Meta(description="`1`: the receiver's certificate is not verified.")
    ] = UNSET
    secret: Annotated[str | UnsetType, Meta(description="Masked: `********`.", examples=["********"])] = UNSET
    username: Annotated[str | UnsetType, Meta(description="For HTTP basic authentication.")] = UNSET
    password: Annotated[str | UnsetType, Meta(description="Masked: `********`.")] = UNSET
    header_style: Annotated[
        Literal["github", "service", "standard"] | UnsetType,
        Meta(description="Names of the headers. Absent: as for `github`."),
    ] = UNSET
    retries: Annotated[str | UnsetType, Meta(description="Retries after a failed attempt.")] = UNSET
    max_concurrency: Annotated[str | UnsetType, Meta(description="Maximum number of deliveries in flight.")] = UNSET
    rate_limit: Annotated[str | UnsetType, Meta(description="Maximum number of deliveries per second.")] = UNSET


HookId = Annotated[int, Meta(ge=1, le=2**31 - 1, extra_json_schema={"format": "int32"}, examples=[1])]
DeliveryId = Annotated[int, Meta(ge=1, lt=2**53, extra_json_schema={"format": "int64"}, examples=[1])]


class HookShape(msgspec.Struct):
    """A webhook. Only repository webhooks have `test_url` and `last_response`."""

    type: Literal["Repository", "Organization"]
    id: HookId
    name: Annotated[Literal["web"], Meta(description="Always `web`.")]
    active: Annotated[bool, Meta(description="Whether events are delivered to it.")]
    events: Annotated[list[str], Meta(description="Subscribed events; `*` is every event.", examples=[["push"]])]
    config: ConfigShape
    updated_at: Time
    created_at: Time
    url: Url
    ping_url: Url
    deliveries_url: Url
    test_url: Url | UnsetType = UNSET
    last_response: LastResponse | UnsetType = UNSET


class HookApp(msgspec.Struct):
    """The OAuth app that created a webhook."""

    client_id: str
    name: str


class AppHookShape(HookShape, kw_only=True):
    """A webhook created by an OAuth app. Only the app can open the `url` of an organization's webhook."""

    app: HookApp
    repository: Annotated[
        str | None,
        Meta(
            description="Full name of its repository; null: a webhook of the organization itself.",
            examples=["acme/website"],
        ),
    ]


DispatchState = Literal["pending", "retrying", "delivered", "given_up", "held"]


class DeliveryItem(msgspec.Struct):
    """One attempt to deliver one event to one webhook."""

    id: DeliveryId
    guid: Annotated[
        str,
        Meta(description="ID of the event at this webhook, shared by all its attempts; sent as `X-Service-Delivery`."),
    ]
    delivered_at: Time
    redelivery: Annotated[bool, Meta(description="Whether this repeats an earlier attempt.")]
    duration: Annotated[float, Meta(ge=0, description="Seconds.", examples=[0.12])]
    status: Annotated[
        str,
        Meta(
            description="`OK`, or the reason for the failure.",
            examples=["OK", "Invalid HTTP Response: 500", "timed out"],
        ),
    ]
    status_code: Annotated[
        int,
        Meta(
            ge=200,
            le=599,
            description="Status code of the receiver's response; 502 or 504 without one.",
            examples=[200],
        ),
    ]
    event: Annotated[str, Meta(description="The event's name.", examples=["push"])]
    action: Annotated[str | None, Meta(description="The event's action, if it has one.")]
    installation_id: Annotated[
        int | None,
        Meta(description="Installation of the app that caused the event or, failing that, created the webhook."),
    ]
    repository_id: Annotated[int | None, Meta(description="Null for events of the organization itself.")]
    throttled_at: Annotated[Time | None, Meta(description="When the webhook's limits held it back.")]
    url: Annotated[str, Meta(description="The receiver; empty in lists.")]
    dispatch_state: Annotated[
        DispatchState,
        Meta(
            description="State of the event at this webhook. `pending`: waiting for a requested redelivery. "
            "`retrying`: waiting for a retry. `held`: due, but held back by the webhook's limits "
            "or its other deliveries. `delivered`: the newest attempt succeeded. `given_up`: the "
            "newest attempt failed and no other will follow."
        ),
    ]
    attempt: Annotated[int, Meta(ge=1, description="Number of this attempt.", examples=[1])]
    attempts_max: Annotated[
        int | None,
        Meta(
            description="Attempts after which the event is given up; a requested redelivery adds the webhook's "
            "full schedule. Null if unknown.",
            examples=[9],
        ),
    ]
    next_attempt_at: Annotated[Time | None, Meta(description="When the event is sent again; null: never.")]


class DeliveryRequest(msgspec.Struct):
    """The request that was sent."""

    headers: Annotated[dict[str, str], Meta(description="Credentials in them are masked.")]
    payload: Annotated[dict[str, Any], Meta(description="Empty after the retention period.")]


class DeliveryResponse(msgspec.Struct):
    """The receiver's response."""

    headers: dict[str, str]
    payload: Annotated[str, Meta(description="Body as text, up to 64 KiB.")]


class DeliveryDetail(DeliveryItem):
    """A delivery with its request and response."""

    request: DeliveryRequest
    response: DeliveryResponse


class PublishedEvent(msgspec.Struct):
    """A stored event."""

    id: Annotated[
        str, Meta(description="The publisher's ID for the event, or a number without one.", examples=["build-17"])
    ]
    deliveries: Annotated[
        int, Meta(ge=0, description="Number of active webhooks that receive it; the same when an `id` is repeated.")
    ]


class RedeliveryShape(msgspec.Struct):
    """The progress of a bulk redelivery."""

    id: int
    state: Annotated[
        Literal["running", "done"], Meta(description="`done`: every matching delivery has been processed.")
    ]
    queued: Annotated[int, Meta(ge=0, description="Number of events queued for redelivery so far.")]
    percent: Annotated[int, Meta(ge=0, le=100, description="Approximate share of deliveries processed.")]
    created_at: Time
    updated_at: Annotated[Time, Meta(description="When it last made progress.")]
    finished_at: Time | None
    url: Annotated[str, Meta(description="Address of this job.")]


class StartedRedelivery(msgspec.Struct):
    """A started bulk redelivery.

    The first thousand deliveries are processed before the response is sent, the rest afterwards.
    """

    queued: Annotated[int, Meta(ge=0, description="Number of events queued for redelivery so far.")]
    job: RedeliveryShape


class HookViewer(msgspec.Struct, frozen=True):
    """The caller reading hooks.

    All callers who may read a repository's hooks see every hook, as on GitHub. Of an organization's hooks, an OAuth app
    sees only those it created, and no other caller sees them.
    """

    app_id: int | None = None  # None for users and installed apps
    everything: bool = False  # for Workhook itself and its commands

    def sees(self, *, app_id: int | None, repository_id: int | None) -> bool:
        """Return whether the caller sees a hook created by `app_id` in a repository or, if None, in an organization."""
        return self.everything or repository_id is not None or app_id == self.app_id


OPERATOR = HookViewer(everything=True)


def viewer_of(actor: Actor | None) -> HookViewer:
    return OPERATOR if actor is None else HookViewer(actor.app_id if actor.token_kind == OAUTH.name else None)


class HookOwner(msgspec.Struct, frozen=True):
    """The repository or organization that owns hooks, and the viewer, who may not see all of them."""

    account: Account
    repository: Repository | None = None
    viewer: HookViewer = OPERATOR

    @property
    def target(self) -> HookTarget:
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
        return Draft(self.account.id, self.repository_id, name, action, payload, installation_id=installation_id)

    def context(self, base: str, sender: Account | None) -> dict[str, object]:
        """Return repository, organization and sender for a payload, with every key that typed clients expect."""
        around: dict[str, object] = {}
        if self.repository:
            around["repository"] = app_repository_to_response(self.repository, base, permissions=False)
        if self.organization:
            around["organization"] = organization_to_response(self.organization, base)
        around["sender"] = owner_to_response(sender, base) if sender else None
        return around


class Hook(HiddenRepr, msgspec.Struct, frozen=True):
    """A row of `hooks`, with parsed JSON and sealed secrets."""

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
    app_id: int | None = None  # the OAuth app that created it
    installation_id: int | None = None

    @property
    def only_app(self) -> int | None:
        """The only OAuth app that sees the hook, or None if users see it too."""
        return self.app_id if self.repository_id is None else None

    @property
    def content_type(self) -> Literal["json", "form"]:
        return CONTENT_TYPES[self.config.get("content_type", "form")]

    @property
    def retries_allowed(self) -> int | None:
        """The hook's own number of retries, or None to use the server setting."""
        configured = self.config.get("retries")
        return None if configured is None else int(configured)


HOOK_COLUMNS = Hook.__struct_fields__


def hook_from_row(row: Row) -> Hook:
    values = {name: row[name] for name in HOOK_COLUMNS}
    values["active"] = bool(values["active"])
    values["events"] = json.decode(values["events"])
    values["config"] = json.decode(values["config"])
    return Hook(**values)


class AppHook(msgspec.Struct, frozen=True):
    """A webhook, its owner, and the app that created it."""

    hook: Hook
    owner: HookOwner
    client_id: str
    name: str


def installation_to_response(installation_id: int) -> dict[str, object]:
    """Return `installation` for the payloads of a hook created by an app: the installation the app may act as."""
    return {"id": installation_id, "node_id": f"I_{installation_id}"}


def config_to_response(hook: Hook) -> ConfigShape:
    masks = {name: MASK for name in ("secret", "password") if getattr(hook, name) is not None}
    values: dict[str, Any] = {"content_type": "form", "insecure_ssl": "0", **hook.config, **masks}
    return ConfigShape(**values)


UNUSED = LastResponse(code=None, status="unused", message=None)


def hook_to_response(hook: Hook, owner: HookOwner, base: str, last: LastResponse = UNUSED) -> HookShape:
    """Return the API representation of a hook. Links start with `base`; only repository hooks show `last`."""
    url = f"{base}{owner.path}/hooks/{hook.id}"
    shape = shape_of(
        HookShape,
        hook,
        type="Repository" if owner.repository else "Organization",
        name="web",
        config=config_to_response(hook),
        url=url,
        ping_url=f"{url}/pings",
        deliveries_url=f"{url}/deliveries",
    )
    if owner.repository:
        shape.test_url = f"{url}/test"
        shape.last_response = last
    return shape


def last_response_of(row: Row | None) -> LastResponse:
    if row is None:
        return UNUSED
    if 200 <= row["status_code"] < 300:
        return LastResponse(row["status_code"], "active", "OK")
    status = "timeout" if row["status"] == "timed out" else "failure"
    return LastResponse(row["status_code"], status, row["status"])


def plain_config(shown: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in shown.items() if value is not None}
