"""Users, organizations and repositories as they are asked for by name, with every key that typed clients insist on.

What events carry is shorter: `identity.schemas`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from workhook.core.clock import to_seconds_text
from workhook.http.wire_types import Time
from workhook.identity.apps.app_schemas import (
    AppRepositoryShape,
    OwnerShape,
    app_repository_shape,
    owner_shape,
)
from workhook.identity.schemas import Account, OrganizationShape, Repository, organization_shape


class ProfileShape(OwnerShape, kw_only=True):
    """A user, an organization, or the bot of an app."""

    name: str | None
    email: Annotated[str | None, Meta(description="Null but for the caller.")]
    created_at: Time
    updated_at: Time
    bio: None = None
    blog: None = None
    company: None = None
    hireable: None = None
    location: None = None
    public_repos: int = 0
    public_gists: int = 0
    followers: int = 0
    following: int = 0


class OrganizationProfileShape(OrganizationShape, kw_only=True):
    """An organization, as its members see it."""

    name: str | None
    email: Annotated[str | None, Meta(description="For members alone.")]
    created_at: Time
    updated_at: Time
    blog: None = None
    company: None = None
    location: None = None
    archived_at: None = None
    public_repos: int = 0
    public_gists: int = 0
    followers: int = 0
    following: int = 0
    has_organization_projects: bool = False
    has_repository_projects: bool = False


class RepositoryProfileShape(AppRepositoryShape, kw_only=True):
    """A repository, with what the caller may do in it."""

    network_count: int = 0
    subscribers_count: int = 0
    has_discussions: bool = False
    has_downloads: bool = False


class Email(msgspec.Struct):
    """An address of the caller."""

    email: str
    primary: Annotated[bool, Meta(description="Always true: there is one.")]
    verified: Annotated[
        bool, Meta(description="Always true: whoever runs the server gave it, or a provider that has verified it.")
    ]
    visibility: Annotated[str, Meta(description="Always `private`.")]


class Team(msgspec.Struct):
    """There are none."""


class Key(msgspec.Struct):
    """There are none."""


def profile_shape(account: Account, base: str, *, whole: bool) -> ProfileShape:
    """`base`: what links in the body start with. `whole`: with the address, which others are not told."""
    return ProfileShape(
        **msgspec.structs.asdict(owner_shape(account, base)),
        name=account.name,
        email=account.email if whole else None,
        created_at=to_seconds_text(account.created_at),
        updated_at=to_seconds_text(account.updated_at),
    )


def organization_profile_shape(account: Account, base: str) -> OrganizationProfileShape:
    return OrganizationProfileShape(
        **msgspec.structs.asdict(organization_shape(account, base)),
        name=account.name,
        email=account.email,
        created_at=to_seconds_text(account.created_at),
        updated_at=to_seconds_text(account.updated_at),
    )


def repository_profile_shape(repository: Repository, base: str) -> RepositoryProfileShape:
    return RepositoryProfileShape(**msgspec.structs.asdict(app_repository_shape(repository, base)))
