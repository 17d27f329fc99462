"""The table of calendar feeds."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from workhook.storage.metadata import BigId, Millis, metadata


class Feed(msgspec.Struct, frozen=True):
    """A feed of a person. `repository_id`: of the project whose tasks it has; None: it has the tasks that are assigned
    to the person, in whatever project. `created_at`: milliseconds since the epoch."""

    id: int
    repository_id: int | None
    created_at: int


# A feed belongs to a person, and to a project unless it has what is assigned to the person.
calendar_feeds = sa.Table(
    "calendar_feeds",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    sa.Column("repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE")),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),  # SHA-256 of the key in its address
    sa.Column("created_at", Millis, nullable=False),
    sa.Index("ix_calendar_feeds_user_id", "user_id", "repository_id"),
    sa.Index("ix_calendar_feeds_repository_id", "repository_id"),
    sqlite_autoincrement=True,
)
