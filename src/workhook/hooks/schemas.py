"""The shapes of Area B on the wire, as `hooks-wire-facts` records them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType


class LastResponse(msgspec.Struct):
    code: int | None
    status: str
    message: str | None


class ConfigShape(msgspec.Struct, omit_defaults=True):
    """A hook's configuration as it is shown. Secrets are masked; what is not set is not there."""

    url: str | UnsetType = UNSET
    content_type: str | UnsetType = UNSET
    insecure_ssl: str | UnsetType = UNSET
    secret: str | UnsetType = UNSET
    username: str | UnsetType = UNSET
    password: str | UnsetType = UNSET
    header_style: str | UnsetType = UNSET
    retries: str | UnsetType = UNSET
    max_concurrency: str | UnsetType = UNSET
    rate_limit: str | UnsetType = UNSET


class HookShape(msgspec.Struct):
    """A webhook. `test_url` and `last_response` belong to repositories' hooks only."""

    type: str
    id: int
    name: str
    active: bool
    events: list[str]
    config: ConfigShape
    updated_at: str
    created_at: str
    url: str
    ping_url: str
    deliveries_url: str
    test_url: str | UnsetType = UNSET
    last_response: LastResponse | UnsetType = UNSET


class DeliveryItem(msgspec.Struct):
    """A delivery in a list. `duration` is seconds."""

    id: int
    guid: str
    delivered_at: str
    redelivery: bool
    duration: float
    status: str
    status_code: int
    event: str
    action: str | None
    installation_id: int | None
    repository_id: int | None
    throttled_at: str | None
    url: str


class DeliveryRequest(msgspec.Struct):
    headers: dict[str, str]
    payload: dict[str, Any]


class DeliveryResponse(msgspec.Struct):
    headers: dict[str, str]
    payload: str


class DeliveryDetail(DeliveryItem):
    """A delivery with what was sent and what came back."""

    request: DeliveryRequest
    response: DeliveryResponse


class Accepted(msgspec.Struct):
    """`{}`: accepted; clients parse it."""


class Published(msgspec.Struct):
    """`deliveries`: how many active webhooks get the event."""

    id: str
    deliveries: int


class Queued(msgspec.Struct):
    queued: int


Flag = bool | Annotated[str, Meta(pattern="^[01]$")] | Annotated[int, Meta(ge=0, le=1)]
Number = Annotated[str, Meta(pattern=r"^\d{1,6}$")] | Annotated[int, Meta(ge=0, le=999_999)]


class ConfigBody(msgspec.Struct, forbid_unknown_fields=True):
    """What a client may say about a hook's configuration."""

    url: str | UnsetType | None = UNSET
    content_type: str | UnsetType | None = UNSET
    secret: str | UnsetType | None = UNSET
    insecure_ssl: Flag | UnsetType = UNSET
    username: str | UnsetType | None = UNSET
    password: str | UnsetType | None = UNSET
    header_style: str | UnsetType | None = UNSET
    retries: Number | UnsetType | None = UNSET
    max_concurrency: Number | UnsetType | None = UNSET
    rate_limit: Number | UnsetType | None = UNSET
    previous_secret_expires_in: Annotated[int, Meta(ge=0, le=604_800)] | UnsetType = UNSET


class RepositoryHookCreate(msgspec.Struct):
    """`name` may be absent; `events` defaults to push."""

    config: ConfigBody
    name: str | UnsetType = UNSET
    events: list[str] | UnsetType = UNSET
    active: bool | UnsetType = UNSET


class OrganizationHookCreate(msgspec.Struct):
    name: str
    config: ConfigBody
    events: list[str] | UnsetType = UNSET
    active: bool | UnsetType = UNSET


class RepositoryHookUpdate(msgspec.Struct):
    """`events` replaces the list; without it `remove_events`, then `add_events`, change it."""

    config: ConfigBody | UnsetType = UNSET
    events: list[str] | UnsetType = UNSET
    add_events: list[str] | UnsetType = UNSET
    remove_events: list[str] | UnsetType = UNSET
    active: bool | UnsetType = UNSET


class OrganizationHookUpdate(msgspec.Struct):
    name: str | UnsetType = UNSET
    config: ConfigBody | UnsetType = UNSET
    events: list[str] | UnsetType = UNSET
    active: bool | UnsetType = UNSET


class PublishBody(msgspec.Struct):
    """`id` makes publishing idempotent for 24 hours."""

    event: str
    payload: dict[str, Any]
    action: str | UnsetType | None = UNSET
    id: Annotated[str, Meta(min_length=1, max_length=128)] | UnsetType | None = UNSET


class DispatchBody(msgspec.Struct):
    """A `repository_dispatch` event: `event_type` becomes its action."""

    event_type: Annotated[str, Meta(min_length=1, max_length=100)]
    client_payload: dict[str, Any] | UnsetType = UNSET


class RedeliverBody(msgspec.Struct):
    """Which deliveries to send again: those that fit every filter; without any, all that failed."""

    status: str | UnsetType = UNSET
    since: str | UnsetType = UNSET
    until: str | UnsetType = UNSET
    event: str | UnsetType = UNSET
    ids: list[int] | UnsetType = UNSET
