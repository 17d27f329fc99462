"""Tables that several packages read: clients of projects, and the sources of imported records."""

from __future__ import annotations

from typing import Annotated

import msgspec
import sqlalchemy as sa

from workhook.core.records import HIDDEN, NOT_STORED, EventSchema, Record, Timestamp, resource_id
from workhook.identity.schemas import placeholder_address
from workhook.storage.metadata import in_project, plain_table
from workhook.storage.record_rows import table_columns


class Client(Record, frozen=True):
    """A client of a project.

    `email` is the address to which the client was invited. It is visible to the client and to people who may write in
    the project; all others, and events, get a placeholder.
    """

    id: Annotated[str, resource_id("cli")]
    username: Annotated[str, NOT_STORED, EventSchema({"type": ["string", "null"]})]
    email: Annotated[str, EventSchema({"format": "email"})]
    created_at: Timestamp
    updated_at: Timestamp
    user_id: Annotated[int, HIDDEN]


def without_address(client: Client) -> Client:
    """Return the client as shown in events and to people with read access."""
    return msgspec.structs.replace(client, email=placeholder_address(client.username))


clients = plain_table(
    "clients",
    in_project(),
    *table_columns(Client, user_id=sa.ForeignKey("accounts.id")),
    sa.UniqueConstraint("repository_id", "user_id"),
    sa.Index("ix_clients_user", "user_id", "repository_id"),
)

import_links = plain_table(
    "import_links",
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id"), primary_key=True),
    sa.Column("source", sa.Text, primary_key=True),  # trello | asana | github | csv
    sa.Column("external_id", sa.Text, primary_key=True),  # `KIND:ID`, with the ID in the other service
    in_project(),
    sa.Column("kind", sa.Text, nullable=False),  # project | column | task | task_comment | task_blocker
    sa.Column("internal_id", sa.Text, nullable=False),  # no foreign key: deleted records are not imported again
    sa.Column("fingerprint", sa.Text, nullable=False),  # of the source's data when it was imported
    sa.Index("ix_import_links_internal_id", "repository_id", "kind", "internal_id"),
)
"""Records created by imports, so that a repeated import creates no duplicates."""

unmatched_assignees = plain_table(
    "unmatched_assignees",
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id", ondelete="CASCADE"), primary_key=True),
    in_project(),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("username", sa.Text, primary_key=True),  # empty: unknown
    sa.Column("full_name", sa.Text, primary_key=True),  # empty: unknown
    sa.Index("ix_unmatched_assignees_person", "repository_id", "source", "username", "full_name"),
)
"""Assignees of imported tasks who have no account yet; they are assigned when they join (`imports.people`)."""
