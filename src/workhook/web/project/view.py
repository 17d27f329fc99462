"""What the page of a project's settings shows: everything on one page, and one form of it with its faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from workhook.core.errors import Problem
from workhook.http.calls import Answer
from workhook.http.lists import ListQuery
from workhook.identity import invitations, members
from workhook.identity.invitation_links import list_clients as list_invited_clients
from workhook.identity.invitations import Invitation
from workhook.identity.mail.links import find_unsent
from workhook.identity.mail.undelivered import Undelivered
from workhook.identity.queries import find_member_role
from workhook.storage import Reader
from workhook.storage.pages import Page
from workhook.web.frame import paging
from workhook.web.frame.places import Visit
from workhook.web.frame.texts import text
from workhook.work.board.projects.schemas import LabelColor, find_label_colors
from workhook.work.board.tasks.choices import list_labels
from workhook.work.kernel.access import Access
from workhook.work.people.clients.api import list_client_names, list_clients

SHOWN_MAX = 100
COLOR_NAMES: Mapping[LabelColor, str] = {
    "red": text("Red"),
    "orange": text("Orange"),
    "yellow": text("Yellow"),
    "lime": text("Lime"),
    "green": text("Green"),
    "teal": text("Teal"),
    "sky": text("Sky"),
    "blue": text("Blue"),
    "purple": text("Purple"),
    "pink": text("Pink"),
}


class RefusedForm(msgspec.Struct):
    """`section`: where on the page the form stands. `values`: what was typed."""

    section: str = ""
    values: dict[str, str] = {}
    faults: list[str] = []

    def value(self, section: str, name: str, otherwise: str = "") -> str:
        """Of a field: as it was typed, or else as it is."""
        return self.values.get(name, "") if section == self.section else otherwise


def refused(visit: Visit, section: str, problem: Problem) -> RefusedForm:
    """The form that was sent, with what is wrong."""
    return RefusedForm(section, visit.fields, problem.reasons)


async def administered(visit: Visit) -> Access:
    """The project of the path, if the visitor is an admin of it. Raises `NotFound`, `Forbidden`."""
    await visit.repository("repository.people")
    return await visit.access()


def settings_address(visit: Visit, section: str = "") -> str:
    """The address of the page, or of a part of it."""
    return paging.project_address(visit, "settings") + (f"#{section}" if section else "")


async def settings_page(visit: Visit, access: Access, form: RefusedForm | None = None) -> Answer:
    """The page, or with `form` the page that a form has not changed."""
    reader, repository, page = visit.database, access.repository, Page(SHOWN_MAX)
    added, total = await members.list_collaborators(reader, repository, "direct", "none", page)
    waiting, _ = await invitations.list_of_repository(reader, repository, visit.actor.user, page)
    invited_clients, _ = await list_invited_clients(reader, repository, visit.actor.user, page)
    clients: Any = await list_clients(visit.call, repository.project_id, ListQuery(per_page=SHOWN_MAX))
    return visit.page(
        "project/settings.html",
        status=422 if form else 200,
        access=access,
        added=added,
        more_added=total > len(added),
        waiting=waiting,
        invited_clients=invited_clients,
        unsent=await _unsent_of(reader, [*waiting, *invited_clients]),
        clients=clients.body.clients,
        client_names=await list_client_names(reader, access, SHOWN_MAX),
        more_clients=bool(clients.headers),
        may_invite_strangers=await _may_invite_strangers(visit, access),
        label_colors=await find_label_colors(reader, repository.id),
        known_labels=await list_labels(reader, access),
        color_names=COLOR_NAMES,
        form=form or RefusedForm(),
        faults=form.faults if form else [],
    )


async def _may_invite_strangers(visit: Visit, access: Access) -> bool:
    """Whether the visitor may invite people by e-mail address (`invitations.invite`)."""
    setting = visit.call.services.settings.invite_strangers
    if setting == "owners":
        return await find_member_role(visit.database, access.repository.owner.id, visit.actor.user.id) == "owner"
    return setting == "admins"


async def _unsent_of(reader: Reader, invited: Sequence[Invitation]) -> dict[int, Undelivered]:
    """The invitations whose message did not arrive, and why."""
    return await find_unsent(reader, [each.id for each in invited]) if invited else {}
