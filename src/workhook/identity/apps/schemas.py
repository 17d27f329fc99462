"""OAuth apps, apps and installations, and the rules for registering them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Literal
from urllib.parse import SplitResult

import msgspec

from workhook.core.errors import Fault, compose, phrase, say, shown
from workhook.core.records import Record
from workhook.core.urls import split_url
from workhook.identity.policy import PERMISSIONS
from workhook.identity.schemas import Account


class App(msgspec.Struct, frozen=True):
    """An OAuth app or app, depending on `kind`."""

    id: int
    kind: str  # oauth or app
    account_id: int
    client_id: str
    slug: str
    name: str
    description: str | None
    homepage_url: str | None
    callback_urls: tuple[str, ...]
    device_flow: bool
    public: bool
    permissions: Mapping[str, str]  # the most that an installation can have
    bot_id: int | None  # the account its installations act as
    created_at: int
    updated_at: int

    @property
    def is_oauth(self) -> bool:
        return self.kind == "oauth"

    @property
    def resource(self) -> str:
        return "OauthApp" if self.is_oauth else "App"


class AppSecret(Record, frozen=True):
    """The metadata of a client secret."""

    id: int
    last_eight: str
    created_at: int
    last_used_at: int | None


class AppKey(Record, frozen=True):
    """The public key (PEM) of an app."""

    id: int
    public_key: str
    fingerprint: str
    created_at: int


def selection_of(repository_ids: Collection[int] | None) -> Literal["all", "selected"]:
    return "all" if repository_ids is None else "selected"


class Installation(msgspec.Struct, frozen=True):
    """An app on an organization (`account`). `repository_ids` None means all repositories, including future ones."""

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
    def repository_selection(self) -> Literal["all", "selected"]:
        return selection_of(self.repository_ids)


BOT_SUFFIX = "[bot]"  # no user's login can end like this
NAME_MAX = 34  # its bot's login is `slug[bot]`, and logins have at most 39 characters
DESCRIPTION_MAX = 1000
URL_MAX = 2000
CALLBACKS_MAX = 10
LEVELS = ("read", "write")

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
# RFC 3986 without fragments (`#`) and wildcards (`*`).
_URL_CHARACTERS = re.compile(r"(?:[A-Za-z0-9\-._~:/?\[\]@!$&'()+,;=]|%[0-9A-Fa-f]{2})+")


def slug_of(name: str) -> str:
    """Return the name in lower-case ASCII letters, digits and hyphens. It may be empty."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def name_faults(name: str) -> list[Fault]:
    if not 1 <= len(name) <= NAME_MAX or not name.isprintable() or name != name.strip():
        message = say("name must have 1 to {} printable characters, without spaces at the start or end", NAME_MAX)
        return [Fault(field="name", code="custom", message=message)]
    if 1 <= len(slug_of(name)) <= NAME_MAX:
        return []
    message = say(
        "name must contain an ASCII letter or digit, and can have at most {} characters when written in ASCII", NAME_MAX
    )
    return [Fault(field="name", code="custom", message=message)]


def description_faults(description: str | None) -> list[Fault]:
    if description is None or (len(description) <= DESCRIPTION_MAX and "\0" not in description):
        return []
    message = say("description can have at most {} characters, and no NUL characters", DESCRIPTION_MAX)
    return [Fault(field="description", code="custom", message=message)]


def homepage_faults(url: str | None) -> list[Fault]:
    if url is None:
        return []
    parts = _split(url)
    if parts is not None and parts.scheme in ("http", "https") and "@" not in parts.netloc:
        return []
    message = say("homepage_url must be an http or https URL of at most {} characters", URL_MAX)
    return [Fault(field="homepage_url", code="custom", message=message)]


def callback_faults(urls: Sequence[str], *, required: bool) -> list[Fault]:
    """Return all faults of all URLs. They are later compared exactly, so they must be unambiguous (RFC 9700)."""
    if required and not urls:
        message = "callback_urls must have at least one URL, unless the app uses the device flow"
        return [Fault(field="callback_urls", code="missing_field", message=message)]
    if len(urls) > CALLBACKS_MAX:
        message = say("callback_urls can have at most {} URLs", CALLBACKS_MAX)
        return [Fault(field="callback_urls", code="custom", message=message)]
    faults = []
    for url in dict.fromkeys(urls):
        if complaint := callback_complaint(url):
            named = shown(re.sub("//.*@", "//…@", url, flags=re.DOTALL))  # without user and password
            message = compose("callback_urls: {} must {}", named, phrase(complaint))
            faults.append(Fault(field="callback_urls", code="custom", message=message))
    return faults


def callback_complaint(url: str) -> str | None:
    """Return what the URL must be, or None if it is valid."""
    parts = None if "#" in url or "*" in url else _split(url)
    if len(url) > URL_MAX:
        return compose("have at most {} characters", URL_MAX)
    if "#" in url:
        return "not contain a fragment"
    if "*" in url:
        return "not contain a wildcard; list each URL"
    if parts is None:
        return "be an absolute URL with special characters percent-encoded"
    if "@" in parts.netloc:
        return "not contain a username or password"
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return None
    return "begin with https:// (http:// only for 127.0.0.1, [::1], and localhost)"


def permission_faults(permissions: Mapping[str, str], *, most: Mapping[str, str] | None = None) -> list[Fault]:
    """Return the faults of permissions, whose levels must not exceed `most`."""
    faults = []
    for name, level in permissions.items():
        if name not in PERMISSIONS:
            message = f"unknown permission {shown(name)}; known permissions: {', '.join(PERMISSIONS)}"
        elif level not in LEVELS:
            message = f"{name} must be read or write"
        elif most is not None and (name not in most or LEVELS.index(level) > LEVELS.index(most[name])):
            message = f"the app does not request {name}: {level}"
        else:
            continue
        faults.append(Fault(field="permissions", code="custom", message=message))
    return faults


def _split(url: str) -> SplitResult | None:
    """Split a URL. Returns None unless it is absolute and has a host."""
    if len(url) > URL_MAX or not _URL_CHARACTERS.fullmatch(url):
        return None
    return split_url(url)
