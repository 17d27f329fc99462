"""Personal tokens on the wire: what is asked for, and what is shown of every token that stands for a user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.disclosure import Secretive
from workhook.core.records import COMPUTED, Record
from workhook.http.parameters import ON_ONE_LINE
from workhook.http.wire_types import Time, Url
from workhook.identity.policy import PERMISSIONS, SCOPES
from workhook.identity.schemas import S, shape_of

EXPIRES_MAX_DAYS = 36_500
NOTE_MAX_CHARS = 255
REPOSITORIES_MAX = 100

_LEVELS = ["read", "write"]

Days = Annotated[
    float,
    Meta(
        ge=0.001,
        le=EXPIRES_MAX_DAYS,
        description="Days from now. Default: a classic token is valid as long as the token that makes it, a "
        "fine-grained one for 30 days. A fine-grained one has at most 366.",
    ),
]


class TokenCreate(msgspec.Struct):
    """A personal token to create. It can do no more than the token that asks for it, and does not outlive it."""

    kind: Literal["classic", "fine_grained"] = "classic"
    note: Annotated[str, Meta(max_length=NOTE_MAX_CHARS, description="What it is for."), ON_ONE_LINE] | None = None
    scopes: (
        Annotated[
            list[str],
            Meta(
                max_length=len(SCOPES),
                description="Scopes of a classic token.",
                extra_json_schema={"items": {"type": "string", "enum": list(SCOPES)}},
                examples=[["repo", "work"]],
            ),
        ]
        | UnsetType
    ) = UNSET
    permissions: (
        Annotated[
            dict[str, str],
            Meta(
                max_length=len(PERMISSIONS),
                description="Permissions of a fine-grained token, at least one; write includes read.",
                extra_json_schema={
                    "propertyNames": {"enum": list(PERMISSIONS)},
                    "additionalProperties": {"type": "string", "enum": _LEVELS},
                },
                examples=[{"work": "read", "repository_hooks": "write"}],
            ),
        ]
        | UnsetType
    ) = UNSET
    organization: (
        Annotated[
            str,
            Meta(
                description="Account to which a fine-grained token is confined: an organization you "
                "are in, or your own login."
            ),
        ]
        | UnsetType
    ) = UNSET
    repositories: (
        Annotated[list[str], Meta(min_length=1, max_length=REPOSITORIES_MAX, description="Names, or full names.")]
        | Literal["all"]
        | UnsetType
    ) = UNSET
    expires_in_days: Days | None = None


class TokenApp(msgspec.Struct):
    """The OAuth app or app that a token was issued to."""

    client_id: str
    slug: str
    name: str


class TokenShape(msgspec.Struct):
    """A token that acts for the caller, without the token itself."""

    id: int
    url: Url
    kind: Literal["classic", "fine_grained", "oauth", "app_user"]
    note: str | None
    scopes: Annotated[list[str], Meta(description="Scopes, for tokens that have them.")]
    permissions: Annotated[
        dict[str, str] | None,
        Meta(description="For a fine-grained token, or a narrowed one of an app: permission → `read` or `write`."),
    ]
    organization: Annotated[str | None, Meta(description="The login of the account to which such a token is confined.")]
    repositories: Annotated[
        list[str] | Literal["all"] | None,
        Meta(
            description="Full names of the repositories to which such a token is confined, as far "
            "as you still see them."
        ),
    ]
    app: TokenApp | None
    current: Annotated[bool, Meta(description="Whether it is the token that asks.")]
    created_at: Time
    expires_at: Time | None
    last_used_at: Annotated[Time | None, Meta(description="Accurate to ten minutes.")]


class CreatedToken(Secretive, TokenShape, kw_only=True):
    """A new token. This is the only time that it is shown."""

    token: Annotated[str, Meta(examples=["whp_…"])]


class TokenDetails(Record, frozen=True):
    """What is known of a token, with the names of what it is confined to. Times: milliseconds since the epoch.

    `allowed`: permissions and their levels, of the kinds that have them, at most. `repositories`: full names, of those
    that may be told; None: all there, or it is not confined. `family`: what ends with it; None of one that was made
    with another, which ends alone.
    """

    id: int
    kind: str
    user_id: int
    user: Annotated[str, COMPUTED]
    note: str | None
    scopes: tuple[str, ...]
    permissions: dict[str, str] | None
    allowed: Mapping[str, str]
    organization: Annotated[str | None, COMPUTED]
    repository_ids: tuple[int, ...] | None
    repositories: tuple[str, ...] | None
    app: TokenApp | None
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    revoked_at: int | None
    family: Annotated[str | None, COMPUTED]

    @property
    def confined_to(self) -> list[str] | Literal["all"] | None:
        """The repositories as they are shown."""
        if self.repositories is not None:
            return list(self.repositories)
        return "all" if self.organization is not None else None


def token_shape(shape: type[S], details: TokenDetails, base: str, **values: Any) -> S:
    """`base`: what links in the body start with."""
    url, scopes = f"{base}/user/tokens/{details.id}", list(details.scopes)
    return shape_of(shape, details, url=url, scopes=scopes, repositories=details.confined_to, **values)
