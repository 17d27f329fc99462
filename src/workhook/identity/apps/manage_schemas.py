"""OAuth apps and apps on the wire, as those who manage them see them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.disclosure import Secretive
from workhook.http.wire_types import Time, Url
from workhook.identity.apps import schemas
from workhook.identity.apps.app_schemas import InstallationShape, Level, PermissionMap, Selection, levels
from workhook.identity.apps.credentials import PEM_MAX
from workhook.identity.apps.installing import REPOSITORIES_MAX
from workhook.identity.apps.schemas import BOT_SUFFIX, App
from workhook.identity.schemas import Account, AccountShape, account_shape, shape_of

Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=schemas.NAME_MAX,
        description="No other app may have this name.",
        examples=["Time Keeper"],
    ),
]
Description = Annotated[str, Meta(max_length=schemas.DESCRIPTION_MAX)]
Homepage = Annotated[str, Meta(max_length=schemas.URL_MAX, extra_json_schema={"format": "uri"})]
Callbacks = Annotated[
    list[str],
    Meta(
        max_length=schemas.CALLBACKS_MAX,
        description="Where users are sent back to: https, or http on this machine. `redirect_uri` must be exactly "
        "one of these.",
        examples=[["https://example.com/callback"]],
    ),
]
DeviceFlow = Annotated[bool, Meta(description="Whether users may authorise it on another device (RFC 8628).")]
Public = Annotated[bool, Meta(description="Whether other organizations may install it.")]
Wanted = Annotated[
    dict[str, Level],
    Meta(description="The most that an installation may be granted: `repository_hooks`, `organization_hooks`, `work`."),
]
PublicKey = Annotated[
    str,
    Meta(max_length=PEM_MAX, description="Your own RSA key of at least 2048 bits, as PEM. Default: a new key is made."),
]
AppName = Annotated[str, Meta(min_length=1, max_length=100, description="The app's slug or client id.")]
Repositories = Annotated[
    list[str], Meta(max_length=REPOSITORIES_MAX, description="Names of the chosen ones, without the owner.")
]


class SecretShape(Secretive, msgspec.Struct, kw_only=True):
    """A client secret."""

    id: int
    last_eight: Annotated[str, Meta(description="Its last characters, so that you can tell it from the other one.")]
    created_at: Time
    last_used_at: Annotated[Time | None, Meta(description="Accurate to ten minutes.")]
    client_secret: Annotated[str | UnsetType, Meta(description="Shown only where it is made.")] = UNSET


class KeyShape(Secretive, msgspec.Struct, kw_only=True):
    """The public half of a key that the app signs with."""

    id: int
    fingerprint: Annotated[str, Meta(examples=["SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="])]
    public_key: Annotated[str, Meta(description="PEM.")]
    created_at: Time
    pem: Annotated[str | UnsetType, Meta(description="The private key. Shown only where it is made.")] = UNSET


class OauthAppShape(Secretive, msgspec.Struct, kw_only=True):
    """An OAuth app: it acts for users, with scopes."""

    id: int
    client_id: str
    slug: str
    name: str
    description: str | None
    homepage_url: str | None
    callback_urls: list[str]
    device_flow: DeviceFlow
    owner: AccountShape
    url: Url
    created_at: Time
    updated_at: Time
    client_secret: Annotated[str | UnsetType, Meta(description="Shown only where the app is made.")] = UNSET
    secrets: Annotated[list[SecretShape] | UnsetType, Meta(description="Absent in lists.")] = UNSET


class AppShape(OauthAppShape, kw_only=True):
    """An app: it acts for itself where it is installed, and for users, with permissions."""

    public: Public
    permissions: PermissionMap
    bot_id: Annotated[int, Meta(description="The account that its installations act as.")]
    bot_login: str
    pem: Annotated[str | UnsetType, Meta(description="The private key. Shown only where the app is made.")] = UNSET
    keys: Annotated[list[KeyShape] | UnsetType, Meta(description="Absent in lists.")] = UNSET


class OwnInstallationShape(InstallationShape, kw_only=True):
    """An installation, as the organization's owners see it."""

    repository_ids: Annotated[list[int] | None, Meta(description="The chosen repositories; null: all.")]
    app_permissions: Annotated[
        PermissionMap, Meta(description="What the app asks for now. Anything not in `permissions` waits to be granted.")
    ]


class OwnInstallations(msgspec.Struct):
    """A page of installations."""

    total_count: int
    installations: list[OwnInstallationShape]


class OauthAppCreate(msgspec.Struct, kw_only=True):
    """An OAuth app to register."""

    name: Name
    callback_urls: Callbacks = msgspec.field(default_factory=list)
    homepage_url: Homepage | None = None
    description: Description | None = None
    device_flow: DeviceFlow = False


class AppCreate(OauthAppCreate, kw_only=True):
    """An app to register."""

    permissions: Wanted = msgspec.field(default_factory=dict)
    public: Public = False
    public_key: PublicKey | None = None


class OauthAppEdit(msgspec.Struct, kw_only=True):
    """Fields that are absent stay as they are."""

    name: Name | UnsetType = UNSET
    callback_urls: Callbacks | UnsetType = UNSET
    homepage_url: Homepage | UnsetType | None = UNSET
    description: Description | UnsetType | None = UNSET
    device_flow: DeviceFlow | UnsetType = UNSET


class AppEdit(OauthAppEdit, kw_only=True):
    """Fields that are absent stay as they are."""

    permissions: Wanted | UnsetType = UNSET
    public: Public | UnsetType = UNSET


class KeyCreate(msgspec.Struct):
    """A key to add. Without `public_key` a key is made, and its private half is shown in this answer only."""

    public_key: PublicKey | None = None


class InstallationCreate(msgspec.Struct, kw_only=True):
    """An app to install."""

    app: AppName
    permissions: Annotated[
        dict[str, Level] | UnsetType, Meta(description="At most what the app asks for. Default: all of that.")
    ] = UNSET
    repository_selection: Selection | UnsetType = UNSET
    repositories: Repositories | UnsetType = UNSET


class InstallationEdit(msgspec.Struct, kw_only=True):
    """Fields that are absent stay as they are. To accept what the app asks for now, grant it in `permissions`."""

    permissions: Annotated[dict[str, Level] | UnsetType, Meta(description="At most what the app asks for.")] = UNSET
    repository_selection: Selection | UnsetType = UNSET
    repositories: Repositories | UnsetType = UNSET


def app_path(app: App, organization: Account) -> str:
    """Where it is managed."""
    if app.is_oauth:
        return f"/orgs/{organization.login}/oauth-apps/{app.client_id}"
    return f"/orgs/{organization.login}/apps/{app.slug}"


def app_shape(app: App, organization: Account, base: str) -> OauthAppShape:
    """An `AppShape` of an app, without its secrets and keys. `base`: what links in the body start with."""
    owner, url = account_shape(organization, base), base + app_path(app, organization)
    urls = list(app.callback_urls)
    if app.is_oauth:
        return shape_of(OauthAppShape, app, callback_urls=urls, owner=owner, url=url)
    return shape_of(
        AppShape,
        app,
        callback_urls=urls,
        owner=owner,
        url=url,
        permissions=levels(app.permissions),
        bot_login=app.slug + BOT_SUFFIX,
    )
