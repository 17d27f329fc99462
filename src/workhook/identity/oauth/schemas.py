"""What the endpoints of OAuth answer."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.secrecy import Secretive
from workhook.http.wire_types import Time, Url
from workhook.identity.apps.app_schemas import OwnerShape, PermissionMap, Selection
from workhook.identity.schemas import AccountShape


class Refusal(msgspec.Struct, frozen=True):
    """Why there is no token. A value rather than an exception: what a refusal revokes or counts has to be committed.

    `error`: for programs, the original's code; `interval`: seconds, with `slow_down` only.
    """

    error: str
    description: str
    interval: int | None = None


class TokenAnswer(Secretive, msgspec.Struct, omit_defaults=True):
    """A token, or with the same status 200 `error`: clients of the original read exactly that."""

    access_token: str | UnsetType = UNSET
    token_type: Annotated[str | UnsetType, Meta(description="Always `bearer`.")] = UNSET
    scope: Annotated[
        str | UnsetType, Meta(description="Separated by commas; empty for an app, which has permissions instead.")
    ] = UNSET
    expires_in: Annotated[int | UnsetType, Meta(description="Seconds; absent if it does not expire.")] = UNSET
    refresh_token: str | UnsetType = UNSET
    refresh_token_expires_in: Annotated[int | UnsetType, Meta(description="Seconds.")] = UNSET
    error: Annotated[str | UnsetType, Meta(examples=["bad_verification_code"])] = UNSET
    error_description: str | UnsetType = UNSET
    error_uri: Url | UnsetType = UNSET
    interval: Annotated[int | UnsetType, Meta(description="With `slow_down`: seconds between two polls.")] = UNSET


class DeviceAnswer(Secretive, msgspec.Struct, omit_defaults=True):
    """The two codes of the device flow, or `error`."""

    device_code: str | UnsetType = UNSET
    user_code: Annotated[str | UnsetType, Meta(examples=["WDJB-MJHT"])] = UNSET
    verification_uri: Annotated[Url | UnsetType, Meta(description="Where a person types `user_code`.")] = UNSET
    expires_in: Annotated[int | UnsetType, Meta(description="Seconds.")] = UNSET
    interval: Annotated[int | UnsetType, Meta(description="Seconds between two polls.")] = UNSET
    error: str | UnsetType = UNSET
    error_description: str | UnsetType = UNSET
    error_uri: Url | UnsetType = UNSET


class AuthorizationApp(msgspec.Struct):
    client_id: str
    name: str
    url: Annotated[Url | None, Meta(description="The app's home page.")]


class ScopedInstallation(msgspec.Struct):
    """What a token was narrowed to, as far as the installation still has it."""

    permissions: PermissionMap
    repository_selection: Selection
    single_file_name: None
    has_multiple_single_files: bool
    single_file_paths: list[str]
    repositories_url: Url
    account: OwnerShape


class Authorization(Secretive, msgspec.Struct):
    """A token of the app that asks, with whose it is and what it carries."""

    id: int
    url: Url
    app: AuthorizationApp
    token: Annotated[str, Meta(description="As it was sent, or the new one.")]
    token_last_eight: str
    hashed_token: Annotated[str, Meta(description="SHA-256, hexadecimal.")]
    scopes: list[str]
    note: str | None
    note_url: Annotated[str | None, Meta(description="Always null.")]
    fingerprint: Annotated[str | None, Meta(description="Always null.")]
    created_at: Time
    updated_at: Time
    expires_at: Time | None
    user: AccountShape
    installation: Annotated[
        ScopedInstallation | UnsetType | None,
        Meta(description="Of a token that was narrowed: where it acts; null if the app is not installed there now."),
    ] = UNSET


class ServerMetadata(msgspec.Struct):
    """What a client has to know of this server (RFC 8414)."""

    issuer: Url
    authorization_endpoint: Url
    token_endpoint: Url
    device_authorization_endpoint: Url
    scopes_supported: list[str]
    response_types_supported: list[str]
    response_modes_supported: list[str]
    grant_types_supported: list[str]
    token_endpoint_auth_methods_supported: list[str]
    code_challenge_methods_supported: list[str]
    authorization_response_iss_parameter_supported: Annotated[bool, Meta(description="RFC 9207.")]
    service_documentation: Url
