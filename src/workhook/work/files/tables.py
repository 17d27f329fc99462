"""Folders, and what is known of files; their bytes are in the store."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import OPEN, in_project, metadata
from workhook.storage.record_rows import table_columns
from workhook.work.files.schemas import File, Folder

folders = sa.Table(
    "folders",
    metadata,
    in_project(),
    *table_columns(Folder),
    sa.Index("ix_folders_repository_id", "repository_id"),
)

_deleted = sa.text("deleted_at IS NOT NULL")

files = sa.Table(
    "files",
    metadata,
    in_project(),
    # A folder that is deleted may hold files that were deleted before it.
    sa.Column("folder_id", sa.Text, sa.ForeignKey("folders.id", ondelete="SET NULL")),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    *table_columns(File),
    sa.Index("ix_files_repository_id", "repository_id", "id"),
    sa.Index("ix_files_folder_id", "folder_id"),
    sa.Index("ix_files_in_folder", "repository_id", "folder_id", "id"),
    sa.Index("ix_files_open", "repository_id", "id", **OPEN),  # what clients see
    sa.Index("ix_files_trash", "repository_id", "deleted_at", "id", sqlite_where=_deleted, postgresql_where=_deleted),
    sa.Index("ix_files_blob", "blob", unique=True),
    sa.Index("ix_files_deleted_at", "deleted_at", sqlite_where=_deleted, postgresql_where=_deleted),
)
