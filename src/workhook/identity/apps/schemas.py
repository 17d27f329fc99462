"""OAuth apps and apps, as the program knows them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType

from workhook.identity.schemas import Account


class App(msgspec.Struct, frozen=True):
    """A registered OAuth app (`kind` oauth) or app (`kind` app).

    `permissions`: of an app, what an installation may have at most; `bot_id`: the account its installations act as.
    """

    id: int
    kind: str
    account_id: int
    client_id: str
    slug: str
    name: str
    description: str | None
    homepage_url: str | None
    callback_urls: tuple[str, ...]
    device_flow: bool
    public: bool
    permissions: Mapping[str, str]
    bot_id: int | None
    created_at: int
    updated_at: int

    @property
    def is_oauth(self) -> bool:
        return self.kind == "oauth"

    @property
    def resource(self) -> str:
        """What errors call it."""
        return "OauthApp" if self.is_oauth else "App"


class AppChange(msgspec.Struct, frozen=True, kw_only=True):
    """What an edit changes; UNSET stays. `public` and `permissions` are an app's."""

    name: str | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    homepage_url: str | UnsetType | None = UNSET
    callback_urls: tuple[str, ...] | UnsetType = UNSET
    device_flow: bool | UnsetType = UNSET
    public: bool | UnsetType = UNSET
    permissions: Mapping[str, str] | UnsetType = UNSET


class Secret(msgspec.Struct, frozen=True):
    """A client secret: what is known of it after it was shown."""

    id: int
    last_eight: str
    created_at: int
    last_used_at: int | None


class Key(msgspec.Struct, frozen=True):
    """The public half of a key that an app signs with. `public_key`: PEM."""

    id: int
    public_key: str
    fingerprint: str
    created_at: int


class Installation(msgspec.Struct, frozen=True):
    """An app on an organization (`account`). `repository_ids` None: all of its repositories, those to come too."""

    id: int
    app: App
    account: Account
    permissions: Mapping[str, str]
    repository_ids: frozenset[int] | None
    suspended_at: int | None
    suspended_by: str | None  # app or organization
    created_at: int
    updated_at: int

    @property
    def repository_selection(self) -> str:
        return "all" if self.repository_ids is None else "selected"
