"""What was imported from where."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import in_project, metadata

import_links = sa.Table(
    "import_links",
    metadata,
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id"), primary_key=True),
    sa.Column("source", sa.Text, primary_key=True),  # trello | asana | github | csv
    sa.Column("external_id", sa.Text, primary_key=True),  # `KIND:ID`, the id as the other service calls it
    in_project(),
    sa.Column("kind", sa.Text, nullable=False),  # project | column | task | task_comment | task_blocker
    sa.Column("internal_id", sa.Text, nullable=False),  # no foreign key: what is deleted here is not made again
    sa.Column("fingerprint", sa.Text, nullable=False),  # of what the other service had when it was imported
    sa.Index("ix_import_links_internal_id", "repository_id", "kind", "internal_id"),
)
"""What was made of what, so that an import that is repeated makes nothing twice."""

unmatched_assignees = sa.Table(
    "unmatched_assignees",
    metadata,
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id", ondelete="CASCADE"), primary_key=True),
    in_project(),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("username", sa.Text, primary_key=True),  # empty: not known
    sa.Column("full_name", sa.Text, primary_key=True),  # empty: not known
    sa.Index("ix_unmatched_assignees_person", "repository_id", "source", "username", "full_name"),
)
"""People to whom tasks were assigned elsewhere and who had no account here, until they join (`imports.late`)."""
