"""How somebody becomes a client, by accepting an invitation or by being put back, and how that ends."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core.ids import new_id
from workhook.core.records import to_response
from workhook.identity import removal
from workhook.identity.context import Write
from workhook.identity.queries import find_repository_by_id
from workhook.identity.schemas import Account, Repository
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader
from workhook.storage.dialects import upsert
from workhook.storage.metadata import big
from workhook.storage.record_rows import assigned, row_reader, selected, stored_names, values_of
from workhook.work.kernel.clients import Client, clients, without_address
from workhook.work.kernel.record_events import publish_audited

_own = sa.select(clients.c.id).where(
    clients.c.repository_id == big("repository_id"), clients.c.user_id == big("user_id")
)
_insert = (
    upsert(clients)
    .values(assigned(("repository_id", *stored_names(Client))))
    .on_conflict_do_nothing(index_elements=["repository_id", "user_id"])
)


async def put_in(write: Write, repository: Repository, account: Account, email: str) -> Client | None:
    """Make a user a client, and tell of it. None: the user is one already. The caller has decided."""
    client = Client(new_id("cli"), account.login, email, write.now, write.now, account.id)
    if not await write.tx.execute(_insert, {"repository_id": repository.id, **values_of(client)}):
        return None
    await publish_audited(write, repository, "client", "added", to_response(without_address(client)), client.id)
    return client


async def is_client(reader: Reader, repository: Repository, user: Account) -> bool:
    """Whether the user is a client of the project."""
    return await reader.fetch_one(_own, {"repository_id": repository.id, "user_id": user.id}) is not None


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
