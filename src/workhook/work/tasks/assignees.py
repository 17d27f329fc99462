"""Who can be given a task: whoever sees its project."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from workhook.core.errors import Fault, Invalid, shown
from workhook.identity.queries import key_of
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.storage import Reader
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.work.clients.tables import clients
from workhook.work.people import PersonShape, membership_of, person_columns, person_of_row

_sees = sa.or_(
    accounts.c.id == projects.c.account_id,
    sa.exists().where(
        memberships.c.organization_id == projects.c.account_id,
        memberships.c.user_id == accounts.c.id,
        sa.or_(memberships.c.role == "owner", projects.c.private.is_(sa.false())),
    ),
    sa.exists().where(
        collaborators.c.repository_id == projects.c.repository_id, collaborators.c.user_id == accounts.c.id
    ),
    sa.exists().where(clients.c.repository_id == projects.c.repository_id, clients.c.user_id == accounts.c.id),
)
_people = (
    sa.select(*person_columns(membership_of(big("repository_id"))))
    .select_from(accounts.join(projects, projects.c.repository_id == big("repository_id")))
    .where(any_of(accounts.c.login_key, "keys"), accounts.c.kind == "user", _sees)
    .order_by(accounts.c.id)
)


async def find_people(reader: Reader, repository_id: int, usernames: Collection[str]) -> dict[str, PersonShape]:
    """Those of them who see the project, by `key_of` of their name."""
    keys = sorted({key_of(name) for name in usernames})
    rows = await reader.fetch_all(_people, {"repository_id": repository_id, "keys": keys}) if keys else []
    people = [person_of_row(row) for row in rows]
    return {key_of(each.login): each for each in people}


def chosen(
    people: dict[str, PersonShape], usernames: Sequence[str], field: str = "assignees"
) -> tuple[PersonShape, ...]:
    """Each of them once, the oldest account first. Raises `Invalid` that names who does not see the project."""
    unknown = dict.fromkeys(shown(name) for name in usernames if key_of(name) not in people)
    if unknown:
        message = f"{field}: nobody of this name sees the project: {', '.join(unknown)}"
        raise Invalid(faults=[Fault(field=field, message=message)])
    found = {person.id: person for person in (people[key_of(name)] for name in usernames)}
    return tuple(found[user_id] for user_id in sorted(found))
