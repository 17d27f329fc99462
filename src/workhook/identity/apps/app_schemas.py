"""The API form of OAuth apps, apps and installations, with URLs that GitHub's typed clients require.

URLs of resources that do not exist here point below the account or repository, where nothing is served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.disclosure import HiddenRepr
from workhook.http.wire_types import Time, Unserved, Url
from workhook.identity.apps import schemas
from workhook.identity.apps.credentials import PEM_MAX
from workhook.identity.apps.installer import REPOSITORIES_MAX
from workhook.identity.apps.schemas import BOT_SUFFIX, App, Installation
from workhook.identity.schemas import (
    Account,
    AccountShape,
    Repository,
    RepositoryShape,
    account_to_response,
    repository_to_response,
    shape_of,
    web_base,
)

NAMED_MAX = 500
"""Maximum number of repositories in one request to narrow a token."""

Level = Literal["read", "write"]
PermissionMap = Annotated[
    dict[str, Level], Meta(description="`repository_hooks`, `organization_hooks`, `work`, each `read` or `write`.")
]
Selection = Annotated[
    Literal["all", "selected"],
    Meta(description="`all`: all repositories, present and future; `selected`: the chosen ones."),
]


class OwnerShape(AccountShape):
    """A user or organization, with every key that typed clients expect."""

    followers_url: Unserved
    following_url: Unserved
    gists_url: Unserved
    starred_url: Unserved
    subscriptions_url: Unserved
    organizations_url: Url
    repos_url: Url
    events_url: Unserved
    received_events_url: Unserved


class IntegrationShape(msgspec.Struct, kw_only=True):
    """An app."""

    id: int
    client_id: str
    slug: str
    node_id: str
    owner: OwnerShape
    name: str
    description: str | None
    external_url: Annotated[str, Meta(description="Homepage of the app, or its page on this server.")]
    html_url: Url
    created_at: Time
    updated_at: Time
    permissions: Annotated[
        PermissionMap, Meta(description="Maximum permissions of an installation: permission → `read` or `write`.")
    ]
    events: Annotated[list[str], Meta(description="Always empty: apps create their own webhooks.")]
    installations_count: int


class InstallationShape(msgspec.Struct, kw_only=True):
    """An app installed on an organization."""

    id: int
    account: OwnerShape
    repository_selection: Selection
    access_tokens_url: Url
    repositories_url: Url
    html_url: Url
    app_id: int
    app_slug: str
    client_id: str
    target_id: Annotated[int, Meta(description="The ID of `account`.")]
    target_type: Annotated[str, Meta(description="Always `Organization`.")]
    permissions: PermissionMap
    events: Annotated[list[str], Meta(description="Always empty: apps create their own webhooks.")]
    created_at: Time
    updated_at: Time
    single_file_name: None
    has_multiple_single_files: bool
    single_file_paths: list[str]
    suspended_by: Annotated[None, Meta(description="Always null.")]
    suspended_at: Time | None


_OF_REPOSITORY = (
    "archive", "assignees", "blobs", "branches", "clone", "collaborators", "comments", "commits", "compare",
    "contents", "contributors", "deployments", "downloads", "events", "forks", "git_commits", "git_refs", "git_tags",
    "git", "issue_comment", "issue_events", "issues", "keys", "labels", "languages", "merges", "milestones",
    "notifications", "pulls", "releases", "ssh", "stargazers", "statuses", "subscribers", "subscription", "svn",
    "tags", "teams", "trees",
)  # fmt: skip
_OF_COLLABORATORS = Annotated[str, Meta(extra_json_schema={"format": "uri-template"})]

if TYPE_CHECKING:

    class AppRepositoryShape(RepositoryShape, kw_only=True):
        """A repository, with every key that typed clients expect."""

        owner: OwnerShape
else:
    AppRepositoryShape = msgspec.defstruct(
        "AppRepositoryShape",
        [
            ("owner", OwnerShape),
            *((f"{name}_url", _OF_COLLABORATORS if name == "collaborators" else Unserved) for name in _OF_REPOSITORY),
            *((name, None, None) for name in ("mirror_url", "homepage", "language", "license")),
            *((name, int, 0) for name in ("forks", "forks_count", "open_issues", "open_issues_count", "size")),
            *((name, int, 0) for name in ("stargazers_count", "watchers", "watchers_count")),
            ("topics", tuple[str, ...], ()),
            ("custom_properties", dict[str, str], {}),
            *(
                (f"has_{name}", bool, False)
                for name in ("issues", "projects", "wiki", "pages", "downloads", "discussions")
            ),
            *((name, bool, False) for name in ("is_template", "allow_forking", "web_commit_signoff_required")),
        ],
        bases=(RepositoryShape,),
        namespace={"__doc__": "A repository, with every key that typed clients expect."},
        module=__name__,
        kw_only=True,
    )


class InstallationRequest(msgspec.Struct):
    """A request to install an app. Never returned."""


class InstallationTokenShape(HiddenRepr, msgspec.Struct, kw_only=True):
    """An installation access token. It is shown only once."""

    token: str
    expires_at: Annotated[Time, Meta(description="One hour after it was issued.")]
    permissions: PermissionMap
    repository_selection: Selection
    repositories: (
        Annotated[list[AppRepositoryShape], Meta(description="Only if the request named repositories.")] | UnsetType
    ) = UNSET


class InstallationRepositories(msgspec.Struct):
    """A page of an installation's repositories."""

    total_count: int
    repository_selection: Selection
    repositories: list[AppRepositoryShape]


class UserInstallations(msgspec.Struct):
    """A page of installations."""

    total_count: int
    installations: list[InstallationShape]


NamedRepositories = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=100)]],
    Meta(min_length=1, max_length=NAMED_MAX, description="Names, without the owner."),
]
RepositoryIds = Annotated[list[Annotated[int, Meta(ge=1, le=2**53 - 1)]], Meta(min_length=1, max_length=NAMED_MAX)]
Narrowed = Annotated[
    dict[str, Level], Meta(description="Permission → `read` or `write`. Empty: all that were granted.")
]


class AccessTokenBody(msgspec.Struct):
    """Limits the token to some of the installation's repositories and permissions. Defaults to all of them."""

    repositories: NamedRepositories | UnsetType = UNSET
    repository_ids: RepositoryIds | UnsetType = UNSET
    permissions: Narrowed | UnsetType = UNSET


_OF_ACCOUNT = tuple(
    name.removesuffix("_url") for name in OwnerShape.__struct_fields__ if name not in AccountShape.__struct_fields__
)


def owner_to_response(account: Account, base: str) -> OwnerShape:
    shape = account_to_response(account, base)
    links: dict[str, Any] = {f"{name}_url": f"{shape.url}/{_path(name)}" for name in _OF_ACCOUNT}
    links["organizations_url"] = f"{base}/users/{account.login}/orgs"
    return OwnerShape(**msgspec.structs.asdict(shape), **links)


def homepage_of(app: App, base: str) -> str:
    """Return the address of the app's homepage, or of its page on this server, because typed clients require one."""
    return app.homepage_url or _page_of(app, base)


def _page_of(app: App, base: str) -> str:
    return f"{web_base(base)}/apps/{app.slug}"


def integration_to_response(app: App, owner: Account, installations: int, base: str) -> IntegrationShape:
    return shape_of(
        IntegrationShape,
        app,
        node_id=f"I_{app.id}",
        owner=owner_to_response(owner, base),
        external_url=homepage_of(app, base),
        html_url=_page_of(app, base),
        permissions=levels(app.permissions),
        events=[],
        installations_count=installations,
    )


def installation_to_response(installation: Installation, base: str) -> InstallationShape:
    account, app = installation.account, installation.app
    return shape_of(
        InstallationShape,
        installation,
        account=owner_to_response(account, base),
        access_tokens_url=f"{base}/app/installations/{installation.id}/access_tokens",
        repositories_url=f"{base}/installation/repositories",
        html_url=f"{web_base(base)}/organizations/{account.login}/settings/installations/{installation.id}",
        app_id=app.id,
        app_slug=app.slug,
        client_id=app.client_id,
        target_id=account.id,
        target_type=account.type,
        permissions=levels(installation.permissions),
        events=[],
        suspended_by=None,
        single_file_name=None,
        has_multiple_single_files=False,
        single_file_paths=[],
    )


def app_repository_to_response(repository: Repository, base: str, *, permissions: bool = True) -> AppRepositoryShape:
    """Return the shape of a repository. `permissions` adds the caller's permissions."""
    shape = repository_to_response(repository, base, permissions=permissions)
    links: dict[str, Any] = {f"{name}_url": f"{shape.url}/{_path(name)}" for name in _OF_REPOSITORY}
    links["collaborators_url"] += "{/collaborator}"
    known = msgspec.structs.asdict(shape) | {"owner": owner_to_response(repository.owner, base)}
    return AppRepositoryShape(**known, **links)


def levels(permissions: Mapping[str, str]) -> dict[str, Level]:
    return {name: "write" if level == "write" else "read" for name, level in sorted(permissions.items())}


def _path(name: str) -> str:
    return name.replace("_", "/")


# --- for managers of apps ---------------------------------------------------------------------------------------------

Name = Annotated[
    str,
    Meta(min_length=1, max_length=schemas.NAME_MAX, description="Unique on the server.", examples=["Time Keeper"]),
]
Description = Annotated[str, Meta(max_length=schemas.DESCRIPTION_MAX)]
Homepage = Annotated[str, Meta(max_length=schemas.URL_MAX, extra_json_schema={"format": "uri"})]
Callbacks = Annotated[
    list[str],
    Meta(
        max_length=schemas.CALLBACKS_MAX,
        description="Callback URLs: https, or http on this machine. `redirect_uri` must equal one of them.",
        examples=[["https://example.com/callback"]],
    ),
]
DeviceFlow = Annotated[bool, Meta(description="Whether users can authorize it on another device (RFC 8628).")]
Public = Annotated[bool, Meta(description="Whether other organizations can install it.")]
Wanted = Annotated[
    dict[str, Level],
    Meta(description="Maximum permissions of an installation: `repository_hooks`, `organization_hooks`, `work`."),
]
PublicKey = Annotated[
    str,
    Meta(max_length=PEM_MAX, description="Your own RSA key of at least 2048 bits, as PEM. Default: a generated key."),
]
AppName = Annotated[str, Meta(min_length=1, max_length=100, description="The app's slug or client ID.")]
Repositories = Annotated[
    list[str], Meta(max_length=REPOSITORIES_MAX, description="Names of the selected repositories, without the owner.")
]


class SecretShape(HiddenRepr, msgspec.Struct, kw_only=True):
    """A client secret."""

    id: int
    last_eight: Annotated[str, Meta(description="Last characters, to tell two secrets apart.")]
    created_at: Time
    last_used_at: Annotated[Time | None, Meta(description="Accurate to ten minutes.")]
    client_secret: Annotated[str | UnsetType, Meta(description="Shown only once, when it is created.")] = UNSET


class AppKeyShape(HiddenRepr, msgspec.Struct, kw_only=True):
    """The public part of a key that the app signs with."""

    id: int
    fingerprint: Annotated[str, Meta(examples=["SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="])]
    public_key: Annotated[str, Meta(description="PEM.")]
    created_at: Time
    pem: Annotated[str | UnsetType, Meta(description="Private key. Shown only once, when it is created.")] = UNSET


class OauthAppShape(HiddenRepr, msgspec.Struct, kw_only=True):
    """An OAuth app, which acts for users and has scopes."""

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
    client_secret: Annotated[str | UnsetType, Meta(description="Shown only once, when the app is created.")] = UNSET
    secrets: Annotated[list[SecretShape] | UnsetType, Meta(description="Absent in lists.")] = UNSET


class AppShape(OauthAppShape, kw_only=True):
    """An app, which acts for itself where it is installed and for users, and has permissions."""

    public: Public
    permissions: PermissionMap
    bot_id: Annotated[int, Meta(description="Account its installations act as.")]
    bot_login: str
    pem: Annotated[str | UnsetType, Meta(description="Private key. Shown only once, when the app is created.")] = UNSET
    keys: Annotated[list[AppKeyShape] | UnsetType, Meta(description="Absent in lists.")] = UNSET


class OwnInstallationShape(InstallationShape, kw_only=True):
    """An installation, as shown to the organization's owners."""

    repository_ids: Annotated[list[int] | None, Meta(description="Selected repositories; null: all.")]
    app_permissions: Annotated[
        PermissionMap,
        Meta(description="Permissions the app requests now. Those missing in `permissions` are not granted yet."),
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
    """Omitted fields are left unchanged."""

    name: Name | UnsetType = UNSET
    callback_urls: Callbacks | UnsetType = UNSET
    homepage_url: Homepage | UnsetType | None = UNSET
    description: Description | UnsetType | None = UNSET
    device_flow: DeviceFlow | UnsetType = UNSET


class AppEdit(OauthAppEdit, kw_only=True):
    """Omitted fields are left unchanged."""

    permissions: Wanted | UnsetType = UNSET
    public: Public | UnsetType = UNSET


class AppKeyCreate(msgspec.Struct):
    """A key to add. Without `public_key`, a key is generated, and its private part is shown only in this response."""

    public_key: PublicKey | None = None


class InstallationCreate(msgspec.Struct, kw_only=True):
    """An app to install."""

    app: AppName
    permissions: Annotated[
        dict[str, Level] | UnsetType, Meta(description="Among the permissions the app requests. Default: all of them.")
    ] = UNSET
    repository_selection: Selection | UnsetType = UNSET
    repositories: Repositories | UnsetType = UNSET


class InstallationEdit(msgspec.Struct, kw_only=True):
    """Omitted fields are left unchanged.

    To accept the permissions the app requests now, grant them in `permissions`.
    """

    permissions: Annotated[
        dict[str, Level] | UnsetType, Meta(description="Among the permissions the app requests.")
    ] = UNSET
    repository_selection: Selection | UnsetType = UNSET
    repositories: Repositories | UnsetType = UNSET


def app_path(app: App, organization: Account) -> str:
    if app.is_oauth:
        return f"/orgs/{organization.login}/oauth-apps/{app.client_id}"
    return f"/orgs/{organization.login}/apps/{app.slug}"


def app_to_response(app: App, organization: Account, base: str) -> OauthAppShape:
    """Return an `AppShape` for an app, or an `OauthAppShape` for an OAuth app, without secrets and keys."""
    owner, url = account_to_response(organization, base), base + app_path(app, organization)
    urls = list(app.callback_urls)
    if app.is_oauth:
        return shape_of(OauthAppShape, app, callback_urls=urls, owner=owner, url=url)
    more = {"permissions": levels(app.permissions), "bot_login": app.slug + BOT_SUFFIX}
    return shape_of(AppShape, app, callback_urls=urls, owner=owner, url=url, **more)
