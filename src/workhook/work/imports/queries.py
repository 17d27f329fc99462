"""The SQL of imports: links, and what they lead to. Confined to one account, and within it to one project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from workhook.identity.schemas import Account, account_of
from workhook.identity.tables import accounts, memberships, projects
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, insert_into
from workhook.work.columns.tables import columns
from workhook.work.imports.tables import import_links
from workhook.work.tasks.tables import tasks


class Link(msgspec.Struct, frozen=True):
    """What was made of a thing of another service, and in which project that is."""

    repository_id: int
    project_id: str
    internal_id: str
    fingerprint: str


_links = (
    sa.select(
        import_links.c.external_id,
        import_links.c.repository_id,
        projects.c.id.label("project_id"),
        import_links.c.internal_id,
        import_links.c.fingerprint,
    )
    .join_from(import_links, projects, projects.c.repository_id == import_links.c.repository_id)
    .where(
        import_links.c.account_id == big("account_id"),
        import_links.c.source == sa.bindparam("source"),
        any_of(import_links.c.external_id, "keys"),
        projects.c.deleted_at.is_(None),
    )
)
_forget = sa.delete(import_links).where(
    import_links.c.account_id == big("account_id"),
    import_links.c.source == sa.bindparam("source"),
    import_links.c.repository_id.in_(
        sa.select(projects.c.repository_id).where(
            projects.c.account_id == big("account_id"), projects.c.deleted_at.is_not(None)
        )
    ),
)
_forget_column = sa.delete(import_links).where(
    import_links.c.account_id == big("account_id"),
    import_links.c.source == sa.bindparam("source"),
    any_of(import_links.c.external_id, "keys"),
)
_insert = insert_into(
    import_links, "account_id", "source", "external_id", "repository_id", "kind", "internal_id", "fingerprint"
)
_columns = sa.select(columns.c.id).where(columns.c.repository_id == big("repository_id"))
_tasks = sa.select(tasks.c.id, tasks.c.title).where(
    tasks.c.repository_id == big("repository_id"), tasks.c.deleted_at.is_(None), any_of(tasks.c.id, "task_ids")
)
_members = (
    sa.select(*(accounts.c[name] for name in Account.__struct_fields__))
    .join_from(accounts, memberships, memberships.c.user_id == accounts.c.id)
    .where(memberships.c.organization_id == big("organization_id"), accounts.c.kind == "user")
    .order_by(accounts.c.id)
)


async def find_links(reader: Reader, account_id: int, source: str, keys: Sequence[str]) -> dict[str, Link]:
    """By key. Links into projects that were deleted count for nothing."""
    rows = await reader.fetch_all(_links, {"account_id": account_id, "source": source, "keys": list(keys)})
    return {
        row["external_id"]: Link(row["repository_id"], row["project_id"], row["internal_id"], row["fingerprint"])
        for row in rows
    }


async def forget_links(tx: Transaction, account_id: int, source: str, gone: Sequence[str]) -> None:
    """Those into projects that were deleted, and the keys in `gone`."""
    await tx.execute(_forget, {"account_id": account_id, "source": source})
    if gone:
        await tx.execute(_forget_column, {"account_id": account_id, "source": source, "keys": list(gone)})


async def insert_links(
    tx: Transaction, account_id: int, source: str, repository_id: int, made: Sequence[Mapping[str, str]]
) -> None:
    """`made`: external_id, kind, internal_id, fingerprint."""
    place = {"account_id": account_id, "source": source, "repository_id": repository_id}
    await tx.execute_many(_insert, [{**place, **each} for each in made])


async def living_columns(reader: Reader, repository_id: int) -> set[str]:
    return {row["id"] for row in await reader.fetch_all(_columns, {"repository_id": repository_id})}


async def living_tasks(reader: Reader, repository_id: int, task_ids: Sequence[str]) -> dict[str, str]:
    """Titles by id."""
    rows = await reader.fetch_all(_tasks, {"repository_id": repository_id, "task_ids": list(task_ids)})
    return {row["id"]: row["title"] for row in rows}


async def members_of(reader: Reader, organization_id: int) -> list[Account]:
    """Who is in the organization, oldest first."""
    return [account_of(row) for row in await reader.fetch_all(_members, {"organization_id": organization_id})]
