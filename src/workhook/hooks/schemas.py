"""The shapes of the webhook API on the wire, as `hooks-wire-facts` records them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.http.wire_types import Time, Url


class LastResponse(msgspec.Struct):
    """How the newest delivery of the last 30 days ended; `unused` without one."""

    code: Annotated[int | None, Meta(description="The status that the receiver answered.", examples=[200])]
    status: Annotated[str, Meta(description="`unused`, `active`, `failure` or `timeout`.", examples=["active"])]
    message: Annotated[str | None, Meta(description="`OK`, or what went wrong.", examples=["OK"])]


class ConfigShape(msgspec.Struct, omit_defaults=True):
    """A webhook's configuration as it is shown. Secrets are masked; what is not set is not there."""

    url: Annotated[str | UnsetType, Meta(description="The receiver.", examples=["https://example.com/webhook"])] = UNSET
    content_type: Annotated[
        Literal["json", "form", "application/json", "application/x-www-form-urlencoded"] | UnsetType,
        Meta(description="How payloads are sent, in the word that was written.", examples=["json"]),
    ] = UNSET
    insecure_ssl: Annotated[
        Literal["0", "1"] | UnsetType, Meta(description="`1`: the receiver's certificate is not checked.")
    ] = UNSET
    secret: Annotated[str | UnsetType, Meta(description="Masked: `********`.", examples=["********"])] = UNSET
    username: Annotated[str | UnsetType, Meta(description="For HTTP basic authentication.")] = UNSET
    password: Annotated[str | UnsetType, Meta(description="Masked: `********`.")] = UNSET
    header_style: Annotated[
        Literal["github", "service", "standard"] | UnsetType,
        Meta(description="Which names the headers have. Absent: those of `github`."),
    ] = UNSET
    retries: Annotated[str | UnsetType, Meta(description="Further attempts after a failed one.")] = UNSET
    max_concurrency: Annotated[str | UnsetType, Meta(description="Deliveries in flight at once.")] = UNSET
    rate_limit: Annotated[str | UnsetType, Meta(description="Deliveries a second.")] = UNSET


HookId = Annotated[int, Meta(ge=1, le=2**31 - 1, extra_json_schema={"format": "int32"}, examples=[1])]
DeliveryId = Annotated[int, Meta(ge=1, lt=2**53, extra_json_schema={"format": "int64"}, examples=[1])]


class HookShape(msgspec.Struct):
    """A webhook. `test_url` and `last_response` belong to repositories' hooks only."""

    type: Literal["Repository", "Organization"]
    id: HookId
    name: Annotated[Literal["web"], Meta(description="Always `web`.")]
    active: Annotated[bool, Meta(description="Whether events are sent to it.")]
    events: Annotated[list[str], Meta(description="What it is sent; `*` is every event.", examples=[["push"]])]
    config: ConfigShape
    updated_at: Time
    created_at: Time
    url: Url
    ping_url: Url
    deliveries_url: Url
    test_url: Url | UnsetType = UNSET
    last_response: LastResponse | UnsetType = UNSET


class HookApp(msgspec.Struct):
    """The OAuth app that made a webhook."""

    client_id: str
    name: str


class AppHookShape(HookShape, kw_only=True):
    """A webhook that an OAuth app made. At its `url` only the app finds it."""

    app: HookApp
    repository: Annotated[
        str | None, Meta(description="Its full name; null: the organization's own.", examples=["acme/website"])
    ]


class DeliveryItem(msgspec.Struct):
    """One attempt to send one event to one webhook."""

    id: DeliveryId
    guid: Annotated[str, Meta(description="Of the event at this webhook: repeats have the same. `X-Service-Delivery`.")]
    delivered_at: Time
    redelivery: Annotated[bool, Meta(description="Whether it is a repeat of an earlier attempt.")]
    duration: Annotated[float, Meta(ge=0, description="Seconds.", examples=[0.12])]
    status: Annotated[
        str, Meta(description="`OK`, or why it failed.", examples=["OK", "Invalid HTTP Response: 500", "timed out"])
    ]
    status_code: Annotated[
        int, Meta(ge=200, le=599, description="What was answered; 502 or 504 where nothing was.", examples=[200])
    ]
    event: Annotated[str, Meta(description="The event's name.", examples=["push"])]
    action: Annotated[str | None, Meta(description="The event's action, where it has one.")]
    installation_id: Annotated[
        int | None, Meta(description="Of the app that caused the event or, failing that, made the webhook.")
    ]
    repository_id: Annotated[int | None, Meta(description="Null for events of the organization itself.")]
    throttled_at: Annotated[Time | None, Meta(description="When it was held back for the webhook's limits.")]
    url: Annotated[str, Meta(description="The receiver; empty in lists.")]


class DeliveryRequest(msgspec.Struct):
    """What was sent."""

    headers: Annotated[dict[str, str], Meta(description="Credentials in them are masked.")]
    payload: Annotated[dict[str, Any], Meta(description="Empty once it is older than the retention.")]


class DeliveryResponse(msgspec.Struct):
    """What came back."""

    headers: dict[str, str]
    payload: Annotated[str, Meta(description="The body as text, at most 64 KiB of it.")]


class DeliveryDetail(DeliveryItem):
    """A delivery with what was sent and what came back."""

    request: DeliveryRequest
    response: DeliveryResponse


class Accepted(msgspec.Struct):
    """`{}`: accepted; clients parse it."""


class Published(msgspec.Struct):
    """The event is stored."""

    id: Annotated[str, Meta(description="What the publisher called it, else a number of ours.", examples=["build-17"])]
    deliveries: Annotated[int, Meta(ge=0, description="How many active webhooks get it; 0 for a repeat of an `id`.")]


class RedeliveryShape(msgspec.Struct):
    """How far many deliveries that were asked for again have come."""

    id: int
    state: Annotated[Literal["running", "done"], Meta(description="`done`: every delivery that fits was looked at.")]
    queued: Annotated[int, Meta(ge=0, description="How many events will be sent again, so far.")]
    percent: Annotated[int, Meta(ge=0, le=100, description="Of the deliveries that are to be looked at, about.")]
    created_at: Time
    updated_at: Annotated[Time, Meta(description="When it last went on.")]
    finished_at: Time | None
    url: Annotated[str, Meta(description="Where to ask again.")]


class Queued(msgspec.Struct):
    """What was asked for again. A thousand deliveries are looked at before the answer, the rest after it."""

    queued: Annotated[int, Meta(ge=0, description="How many events will be sent again, so far.")]
    job: RedeliveryShape
