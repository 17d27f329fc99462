"""Clients, people from outside who may look into a project: the record and its table."""

from __future__ import annotations

from typing import Annotated

import msgspec
import sqlalchemy as sa

from workhook.core.records import COMPUTED, HIDDEN, EventSchema, Millis, Record, resource_id
from workhook.identity.schemas import stand_in_address
from workhook.storage.metadata import in_project, metadata
from workhook.storage.record_rows import table_columns


class Client(Record, frozen=True):
    """A client of a project. `email` is the address to which the client was invited: the client sees it, and who may
    write in the project. Others and events have a stand-in."""

    id: Annotated[str, resource_id("cli")]
    username: Annotated[str, COMPUTED, EventSchema({"type": ["string", "null"]})]
    email: Annotated[str, EventSchema({"format": "email"})]
    created_at: Millis
    updated_at: Millis
    user_id: Annotated[int, HIDDEN]


def without_address(client: Client) -> Client:
    """The client as events show it, and people who only read."""
    return msgspec.structs.replace(client, email=stand_in_address(client.username))


clients = sa.Table(
    "clients",
    metadata,
    in_project(),
    *table_columns(Client, user_id=sa.ForeignKey("accounts.id")),
    sa.UniqueConstraint("repository_id", "user_id"),
    sa.Index("ix_clients_user", "user_id", "repository_id"),
)
