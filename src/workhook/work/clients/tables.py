"""People from outside who were given a project to look into."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import in_project, metadata
from workhook.storage.record_rows import table_columns
from workhook.work.clients.schemas import Client

clients = sa.Table(
    "clients",
    metadata,
    in_project(),
    *table_columns(Client, user_id=sa.ForeignKey("accounts.id")),
    sa.UniqueConstraint("repository_id", "user_id"),
    sa.Index("ix_clients_user", "user_id", "repository_id"),
)
