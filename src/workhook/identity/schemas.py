"""Accounts, organizations and repositories: internal records, and the shapes that GitHub's clients know."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from workhook.core.clock import to_seconds_text
from workhook.core.errors import Message, on_pages, say
from workhook.core.money import DEFAULT_CURRENCY
from workhook.core.records import Record
from workhook.http.calls import RequestRecord
from workhook.http.wire_types import Time, Unserved, Url
from workhook.storage import Row


class Account(Record, frozen=True):
    """A user, an organization or the bot of an app, depending on `kind`. Times are milliseconds since the epoch."""

    id: int
    kind: str
    login: str
    name: str | None
    email: str | None
    avatar: str | None
    created_at: int
    updated_at: int

    @property
    def type(self) -> str:
        return {"organization": "Organization", "bot": "Bot"}.get(self.kind, "User")


class Organization(msgspec.Struct, frozen=True):
    """An organization as seen by one caller."""

    account: Account
    role: str | None  # owner or member; None: not a member
    is_invited: bool = False  # set only for operations that are open to invited users


class Repository(msgspec.Struct, frozen=True):
    """A project as the webhook API shows it, and the caller's `role`: admin, write or read."""

    id: int
    project_id: str
    owner: Account
    name: str
    title: str
    private: bool
    archive: bool
    created_at: int
    updated_at: int
    currency: str = DEFAULT_CURRENCY
    role: str | None = None

    @property
    def full_name(self) -> str:
        return f"{self.owner.login}/{self.name}"

    @property
    def names(self) -> tuple[str, str]:
        return self.owner.login, self.name

    @property
    def organization(self) -> Account | None:
        return self.owner if self.owner.kind == "organization" else None


class Grant(msgspec.Struct, frozen=True):
    """An account that a token is confined to, with its permissions. `repository_ids` None means all repositories."""

    account_id: int
    permissions: Mapping[str, str]  # work, repository_hooks, organization_hooks → read, write
    repository_ids: frozenset[int] | None = None


class Actor(msgspec.Struct, frozen=True):
    """The caller and the rights of its token."""

    user: Account  # the app's bot for an installation
    token_id: int
    token_kind: str
    scopes: frozenset[str]
    address: str | None = None
    last_used_at: int | None = None
    app_id: int | None = None
    installation_id: int | None = None
    grants: tuple[Grant, ...] | None = None  # None if the token is not confined, in which case its scopes apply
    need: tuple[str, str] | None = None  # the permission and level that the operation requires of a confined token
    expires_at: int | None = None
    root_id: int | None = None  # the first token from which this one was derived, if any
    family: str | None = None  # identifies the consent under which the token was issued
    narrowed_to: int | None = None  # the only account that an app's narrowed token reaches
    client_id: str | None = None  # set for the tokens of OAuth apps
    request: RequestRecord = msgspec.field(default_factory=RequestRecord)  # filled while the request is handled

    @property
    def counted_as(self) -> str:
        """The key of the request limit.

        Creating more tokens does not raise the limit, because the tokens of an installation share one, as do the tokens
        of an app for one user and those derived from one personal token.
        """
        if self.installation_id is not None:
            return f"installation:{self.installation_id}"
        if self.app_id is not None:
            return f"app:{self.app_id}:user:{self.user.id}"
        return f"token:{self.root_id or self.token_id}"


Avatar = Annotated[str, Meta(extra_json_schema={"format": "uri"}, description="Without a picture, the server's icon.")]


class AccountShape(msgspec.Struct):
    """A user or organization in a response, as GitHub's clients expect it."""

    login: str
    id: int
    node_id: str
    avatar_url: Avatar
    gravatar_id: Annotated[str, Meta(description="Always empty.")]
    url: Url
    html_url: Url
    type: Annotated[str, Meta(description="`User` or `Organization`.")]
    site_admin: Annotated[bool, Meta(description="False, except for administrators in `/admin/users`.")]
    username: Annotated[str, Meta(description="The same as `login`.")]


class Permissions(msgspec.Struct):
    """The permissions of a user, by default the caller, in the repository."""

    admin: bool
    maintain: bool
    push: bool
    triage: bool
    pull: bool


class RepositoryShape(msgspec.Struct):
    """A repository in a response, as GitHub's clients expect it."""

    id: int
    node_id: str
    name: str
    full_name: str
    private: bool
    owner: AccountShape
    html_url: Url
    description: Annotated[str | None, Meta(description="The project's title.")]
    fork: bool
    url: Url
    hooks_url: Url
    archived: Annotated[bool, Meta(description="Whether the project is archived.")]
    disabled: bool
    visibility: Annotated[
        Literal["private", "internal"], Meta(description="`internal`: members of the organization see it.")
    ]
    default_branch: str
    created_at: Time
    updated_at: Time
    pushed_at: Annotated[Time, Meta(description="Always the same as `created_at`.")]
    project_id: Annotated[str, Meta(description="The project's ID in the work-management API.")]
    permissions: Permissions | msgspec.UnsetType = msgspec.UNSET


class OrganizationShape(msgspec.Struct):
    """An organization in an event.

    Events also go to outside collaborators and their webhooks, so this contains only what these can see of a
    repository's owner. `identity.profile_schemas` adds the fields for members.
    """

    login: str
    id: int
    node_id: str
    url: Url
    repos_url: Url
    events_url: Unserved
    hooks_url: Url
    issues_url: Unserved
    members_url: Annotated[str, Meta(extra_json_schema={"format": "uri-template"})]
    public_members_url: Unserved
    avatar_url: Avatar
    html_url: Url
    description: str | None
    type: str


S = TypeVar("S", bound=msgspec.Struct)


def shape_of(shape: type[S], source: object, **values: Any) -> S:
    """Build a shape from `values`, and from the attributes of `source` for the rest, with times formatted as text."""
    for name in shape.__struct_fields__:
        if name not in values and hasattr(source, name):
            value = getattr(source, name)
            values[name] = to_seconds_text(value) if name.endswith("_at") and value is not None else value
    return shape(**values)


STAND_IN_DOMAIN = "users.noreply.example"
"""A reserved domain (RFC 2606), so no mail is delivered, and strict clients accept it."""


def placeholder_address(login: str) -> str:
    """Return the placeholder for users who may not see the real address."""
    return f"{login}@{STAND_IN_DOMAIN}"


def avatar_url(account: Account, base: str) -> str:
    """Return the address of an account's picture. Typed clients parse it as a URL, so it is never empty."""
    return account.avatar or f"{web_base(base)}/static/icon.svg"


def account_to_response(account: Account, base: str) -> AccountShape:
    path = "orgs" if account.kind == "organization" else "users"
    return AccountShape(
        login=account.login,
        id=account.id,
        node_id=f"A_{account.id}",
        avatar_url=avatar_url(account, base),
        gravatar_id="",
        url=f"{base}/{path}/{account.login}",
        html_url=f"{web_base(base)}/{account.login}",
        type=account.type,
        site_admin=False,
        username=account.login,
    )


def repository_to_response(repository: Repository, base: str, *, permissions: bool = False) -> RepositoryShape:
    return shape_of(
        RepositoryShape,
        repository,
        node_id=f"R_{repository.id}",
        owner=account_to_response(repository.owner, base),
        html_url=f"{web_base(base)}/{repository.full_name}",
        description=repository.title,
        fork=False,
        url=f"{base}/repos/{repository.full_name}",
        hooks_url=f"{base}/repos/{repository.full_name}/hooks",
        archived=repository.archive,
        disabled=False,
        visibility="private" if repository.private else "internal",
        default_branch="main",
        pushed_at=to_seconds_text(repository.created_at),
        permissions=permissions_of(repository.role) if permissions else msgspec.UNSET,
    )


def permissions_of(role: str | None) -> Permissions:
    write = role in ("write", "admin")
    return Permissions(role == "admin", role == "admin", write, write, role is not None)


def organization_to_response(account: Account, base: str) -> OrganizationShape:
    url = f"{base}/orgs/{account.login}"
    return shape_of(
        OrganizationShape,
        account,
        node_id=f"A_{account.id}",
        url=url,
        repos_url=f"{url}/repos",
        events_url=f"{url}/events",
        hooks_url=f"{url}/hooks",
        issues_url=f"{url}/issues",
        members_url=f"{url}/members{{/member}}",
        public_members_url=f"{url}/public_members",
        avatar_url=avatar_url(account, base),
        html_url=f"{web_base(base)}/{account.login}",
        description=None,
        type="Organization",
    )


def web_base(base: str) -> str:
    return base.removesuffix("/api/v3").removesuffix("/api/v1")


def account_of(row: Row, prefix: str = "") -> Account:
    """Read an account from a row whose columns have this prefix."""
    return Account(*map(row.__getitem__, _account_columns(prefix)))


@cache
def _account_columns(prefix: str) -> tuple[str, ...]:
    return tuple(prefix + name for name in Account.__struct_fields__)


# Other addresses of the server start with these names. The page of an organization is `/{owner}` and that of a project
# `/{owner}/{project}`, so an account or project with such a name would be unreachable.
RESERVED_LOGINS = frozenset({
    # the API and operations
    "admin", "api", "app", "applications", "apps", "docs", "graphql", "healthz", "installation", "meta", "metrics",
    "organizations", "orgs", "readyz", "repos", "repositories", "user", "users", "versions", "webhook-events", "zen",
    # pages
    "calendar", "inbox", "invitations", "invoices", "login", "logout", "mail", "new", "receive", "search", "settings",
    "start", "static", "tasks", "time", "welcome",
})  # fmt: skip
"""Reserved logins of users and organizations. Case is ignored."""

RESERVED_PROJECTS = frozenset({
    "-", "activity", "audit", "billing", "clients", "invoices", "new", "people", "projects", "services", "settings",
    "time", "webhooks",
})  # fmt: skip
"""Reserved project names, which are pages of an organization. Case is ignored."""


def name_of_role(role: str) -> Message:
    """Return the name of a role in a repository for messages. Pages show it in the reader's language."""
    return on_pages(role, role.capitalize())


def login_fault(login: str) -> str | None:
    return _reserved("login", login) if login.lower() in RESERVED_LOGINS else None


def project_fault(name: str) -> str | None:
    return _reserved("name", name) if name.lower() in RESERVED_PROJECTS else None


def _reserved(field: str, name: str) -> str:
    return say("{} {} is reserved for a page of the server; choose another", field, name)
