"""Who comes into the settings of an organization, and where these are."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from workhook.identity.schemas import Account, Organization
from workhook.web.frame.places import Visit
from workhook.web.frame.texts import gettext


class Entry(NamedTuple):
    """An entry of the settings' own navigation; `path` goes behind the address of the organization."""

    name: str
    path: str
    icon: str
    label: str


class RefusedSection(NamedTuple):
    """A form of one part of a page that was refused. `section`: the id of the part; `public_key`: what was typed."""

    section: str = ""
    faults: tuple[str, ...] = ()
    public_key: str = ""


def entries() -> list[Entry]:
    """In their order."""
    return [
        Entry("general", "/settings", "settings", gettext("General")),
        Entry("billing", "/settings/billing", "receipt", gettext("Billing")),
        Entry("oauth", "/settings/oauth-apps", "key", gettext("OAuth apps")),
        Entry("app", "/settings/apps", "zap", gettext("Apps")),
        Entry("installations", "/settings/installations", "download", gettext("Installed apps")),
        Entry("export", "/settings/export", "archive", gettext("Export")),
        Entry("trash", "/-/trash", "trash-2", gettext("Deleted projects")),
    ]


def settings_address(account: Account, *more: str) -> str:
    """The address of the settings, or of a part of them."""
    return "/" + "/".join(quote(each, safe="") for each in (account.login, "settings", *more))


async def owned(visit: Visit, *return_to: str) -> Organization:
    """The organization of the path, if the visitor owns it and has shown within the hour who they are. `return_to`: the
    part of the settings to which a form leads back; without it, the page that was asked for. Raises `NotFound`,
    `Forbidden`, `ConfirmFirst`."""
    organization = await visit.organization("organization.admin")
    visit.require_recent(settings_address(organization.account, *return_to) if return_to else None)
    return organization
