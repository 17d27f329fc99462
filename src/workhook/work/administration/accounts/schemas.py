"""People and organizations as administrators of the server see them, and what they say of new ones."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import to_seconds_text
from workhook.http.parameters import Title
from workhook.http.wire_types import Time
from workhook.identity import profile_schemas
from workhook.identity.schemas import Account
from workhook.work.kernel.people import Email

Login = Annotated[str, Meta(min_length=1, max_length=39, description="1 to 39 letters, digits and single hyphens.")]


class UserCreate(msgspec.Struct):
    """A person who gets an account."""

    login: Login
    email: Email
    name: Title | UnsetType | None = UNSET


class OrganizationCreate(msgspec.Struct):
    """An organization, and who owns it."""

    login: Login
    admin: Annotated[str, Meta(description="Login of the user who becomes its owner.")]
    profile_name: Annotated[Title, Meta(description="What it is called. Default: its login.")] | UnsetType | None = (
        UNSET
    )


class AdministeredUser(profile_schemas.ProfileShape, kw_only=True):
    """A person, as administrators see them."""

    site_admin: Annotated[bool, Meta(description="Whether they administer the server.")]
    email: Annotated[str | None, Meta(description="Administrators see it.")]
    disabled_at: Annotated[Time | None, Meta(description="Since when they are locked out; null: they are not.")]


class UserOfServer(msgspec.Struct, frozen=True):
    """`disabled_at`: since when, in milliseconds since the epoch."""

    account: Account
    is_administrator: bool = False
    disabled_at: int | None = None


def administered_user(user: UserOfServer, base: str) -> AdministeredUser:
    """`base`: what links in the body start with."""
    values = msgspec.structs.asdict(profile_schemas.profile_shape(user.account, base, whole=True))
    at = None if user.disabled_at is None else to_seconds_text(user.disabled_at)
    return AdministeredUser(**{**values, "site_admin": user.is_administrator, "disabled_at": at})
