"""What an app asks with its key, and its tokens, is answered in shapes that the field's typed clients insist on.

Their models require some keys of things that do not exist here. Those are links under the account or repository that
they belong to, and nothing is served there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.disclosure import Secretive
from workhook.http.wire_types import Time, Unserved, Url
from workhook.identity import schemas
from workhook.identity.apps.schemas import App, Installation

NAMED_MAX = 500
"""Repositories that a token can be narrowed to."""

Level = Literal["read", "write"]
PermissionMap = Annotated[
    dict[str, Level], Meta(description="`repository_hooks`, `organization_hooks`, `work`, each `read` or `write`.")
]
Selection = Annotated[
    Literal["all", "selected"],
    Meta(description="`all`: all repositories, present and future; `selected`: the chosen ones."),
]


class OwnerShape(schemas.AccountShape):
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
    external_url: Annotated[str, Meta(description="The app's own page or, if it has none, its page here.")]
    html_url: Url
    created_at: Time
    updated_at: Time
    permissions: Annotated[
        PermissionMap, Meta(description="The most that an installation may be granted: permission → `read` or `write`.")
    ]
    events: Annotated[list[str], Meta(description="Always empty: apps make their own webhooks.")]
    installations_count: int


class InstallationShape(msgspec.Struct, kw_only=True):
    """An app on an organization."""

    id: int
    account: OwnerShape
    repository_selection: Selection
    access_tokens_url: Url
    repositories_url: Url
    html_url: Url
    app_id: int
    app_slug: str
    client_id: str
    target_id: Annotated[int, Meta(description="The id of `account`.")]
    target_type: Annotated[str, Meta(description="Always `Organization`.")]
    permissions: PermissionMap
    events: Annotated[list[str], Meta(description="Always empty: apps make their own webhooks.")]
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

    class AppRepositoryShape(schemas.RepositoryShape, kw_only=True):
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
            *((name, bool, False) for name in ("has_issues", "has_projects", "has_wiki", "has_pages")),
        ],
        bases=(schemas.RepositoryShape,),
        namespace={"__doc__": "A repository, with every key that typed clients expect."},
        module=__name__,
        kw_only=True,
    )


class InstallationRequest(msgspec.Struct):
    """There are none."""


class InstallationTokenShape(Secretive, msgspec.Struct, kw_only=True):
    """An installation access token. It is shown only here."""

    token: str
    expires_at: Annotated[Time, Meta(description="In an hour.")]
    permissions: PermissionMap
    repository_selection: Selection
    repositories: (
        Annotated[list[AppRepositoryShape], Meta(description="Those that the request named; else absent.")] | UnsetType
    ) = UNSET


class InstallationRepositories(msgspec.Struct):
    """A page of the repositories of an installation."""

    total_count: int
    repository_selection: Selection
    repositories: list[AppRepositoryShape]


class UserInstallations(msgspec.Struct):
    """A page of installations."""

    total_count: int
    installations: list[InstallationShape]


class AccessTokenBody(msgspec.Struct):
    """Limits the token to some of the installation's repositories and permissions. Default: all of them."""

    repositories: (
        Annotated[
            list[Annotated[str, Meta(min_length=1, max_length=100)]],
            Meta(min_length=1, max_length=NAMED_MAX, description="Names, without the owner."),
        ]
        | UnsetType
    ) = UNSET
    repository_ids: (
        Annotated[list[Annotated[int, Meta(ge=1, le=2**53 - 1)]], Meta(min_length=1, max_length=NAMED_MAX)] | UnsetType
    ) = UNSET
    permissions: (
        Annotated[dict[str, Level], Meta(description="Permission → `read` or `write`. Empty: all that were granted.")]
        | UnsetType
    ) = UNSET


_OF_ACCOUNT = tuple(
    name.removesuffix("_url")
    for name in OwnerShape.__struct_fields__
    if name not in schemas.AccountShape.__struct_fields__
)

ONLY_REPOSITORIES: dict[str, Any] = {
    "single_file_name": None, "has_multiple_single_files": False, "single_file_paths": [],
}  # fmt: skip
"""Permissions for single files are not known here."""


def owner_shape(account: schemas.Account, base: str) -> OwnerShape:
    """`base`: what links in the body start with."""
    shape = schemas.account_shape(account, base)
    links: dict[str, Any] = {f"{name}_url": f"{shape.url}/{_path(name)}" for name in _OF_ACCOUNT}
    links["organizations_url"] = f"{base}/users/{account.login}/orgs"
    return OwnerShape(**msgspec.structs.asdict(shape), **links)


def integration_shape(app: App, owner: schemas.Account, installations: int, base: str) -> IntegrationShape:
    page = f"{_web(base)}/apps/{app.slug}"
    return schemas.shape_of(
        IntegrationShape,
        app,
        node_id=f"I_{app.id}",
        owner=owner_shape(owner, base),
        external_url=app.homepage_url or page,
        html_url=page,
        permissions=levels(app.permissions),
        events=[],
        installations_count=installations,
    )


def installation_shape(installation: Installation, base: str) -> InstallationShape:
    account, app = installation.account, installation.app
    return schemas.shape_of(
        InstallationShape,
        installation,
        account=owner_shape(account, base),
        access_tokens_url=f"{base}/app/installations/{installation.id}/access_tokens",
        repositories_url=f"{base}/installation/repositories",
        html_url=f"{_web(base)}/organizations/{account.login}/settings/installations/{installation.id}",
        app_id=app.id,
        app_slug=app.slug,
        client_id=app.client_id,
        target_id=account.id,
        target_type=account.type,
        permissions=levels(installation.permissions),
        events=[],
        suspended_by=None,
        **ONLY_REPOSITORIES,
    )


def app_repository_shape(repository: schemas.Repository, base: str, *, permissions: bool = True) -> AppRepositoryShape:
    """`permissions`: with what the caller may do in it."""
    shape = schemas.repository_shape(repository, base, permissions=permissions)
    links: dict[str, Any] = {f"{name}_url": f"{shape.url}/{_path(name)}" for name in _OF_REPOSITORY}
    links["collaborators_url"] += "{/collaborator}"
    known = msgspec.structs.asdict(shape) | {"owner": owner_shape(repository.owner, base)}
    return AppRepositoryShape(**known, **links)


def selection_of(repository_ids: Collection[int] | None) -> Selection:
    return "all" if repository_ids is None else "selected"


def levels(permissions: Mapping[str, str]) -> dict[str, Level]:
    return {name: "write" if level == "write" else "read" for name, level in sorted(permissions.items())}


def _path(name: str) -> str:
    return name.replace("_", "/")


def _web(base: str) -> str:
    return base.removesuffix("/api/v3")
