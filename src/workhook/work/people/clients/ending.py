"""Somebody is no client any more, anywhere: their account goes."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core.records import to_response
from workhook.identity import removal
from workhook.identity.context import Write
from workhook.identity.queries import find_repository_by_id
from workhook.identity.schemas import Account
from workhook.identity.tables import accounts, projects
from workhook.storage.metadata import big
from workhook.storage.record_rows import row_reader, selected
from workhook.work.kernel.clients import Client, clients, without_address
from workhook.work.kernel.record_events import publish_audited

_read = row_reader(Client)
_person = accounts.alias("person")
_of_account = (
    sa.select(
        *selected(Client, clients, "client_"),
        _person.c.login.label("client_username"),
        clients.c.repository_id,
        projects.c.account_id,
    )
    .join_from(clients, _person, _person.c.id == clients.c.user_id)
    .join(projects, projects.c.repository_id == clients.c.repository_id)
    .where(clients.c.user_id == big("user_id"))
    .order_by(clients.c.id)
    .with_for_update(of=clients)
)
_delete = sa.delete(clients).where(clients.c.id == sa.bindparam("id"))


async def end_clients_of(write: Write, user: Account) -> None:
    """Take every project away from them in which they are a client."""
    for row in await write.tx.fetch_all(_of_account, {"user_id": user.id}):
        client, here = _read(row, row["client_username"]), await find_repository_by_id(write.tx, row["repository_id"])
        await write.tx.execute(_delete, {"id": client.id})
        await removal.rights_lost(write.tx, row["account_id"], row["repository_id"], user_id=user.id, base=write.base)
        if here is not None:  # None: the project is in the trash, where nobody is told of anything
            await publish_audited(write, here, "client", "removed", to_response(without_address(client)), client.id)
