"""Boards, files, comments and time."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def _columns() -> None:
    op.create_table(
        "columns",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=True),
        sa.Column("finished", sa.Boolean(), nullable=False),
        sa.Column("start_timer", sa.Boolean(), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["projects.repository_id"], name=op.f("fk_columns_repository_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_columns")),
    )
    op.create_index("ix_columns_repository_id", "columns", ["repository_id", "position"], unique=False)


def _folders() -> None:
    op.create_table(
        "folders",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["projects.repository_id"], name=op.f("fk_folders_repository_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_folders")),
    )
    op.create_index("ix_folders_repository_id", "folders", ["repository_id"], unique=False)


def _import_links() -> None:
    op.create_table(
        "import_links",
        sa.Column("account_id", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("internal_id", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_import_links_account_id")),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["projects.repository_id"],
            name=op.f("fk_import_links_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("account_id", "source", "external_id", name=op.f("pk_import_links")),
    )
    op.create_index("ix_import_links_repository_id", "import_links", ["repository_id"], unique=False)


def _files() -> None:
    op.create_table(
        "files",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("folder_id", sa.Text(), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("private", sa.Boolean(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("content_type", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("blob", sa.Text(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["folder_id"], ["folders.id"], name=op.f("fk_files_folder_id"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["projects.repository_id"], name=op.f("fk_files_repository_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_files_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_files")),
    )
    op.create_index("ix_files_blob", "files", ["blob"], unique=True)
    op.create_index(
        "ix_files_deleted_at",
        "files",
        ["deleted_at"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NOT NULL"),
        postgresql_where=sa.text("deleted_at IS NOT NULL"),
    )
    op.create_index("ix_files_folder_id", "files", ["folder_id"], unique=False)
    op.create_index("ix_files_repository_id", "files", ["repository_id", "id"], unique=False)


def _task_buckets() -> None:
    op.create_table(
        "task_buckets",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("column_id", sa.Text(), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["column_id"], ["columns.id"], name=op.f("fk_task_buckets_column_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task_buckets")),
    )
    op.create_index("ix_task_buckets_column_id", "task_buckets", ["column_id", "rank"], unique=False)


def _file_comments() -> None:
    op.create_table(
        "file_comments",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("file_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("private", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["file_id"], ["files.id"], name=op.f("fk_file_comments_file_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["projects.repository_id"],
            name=op.f("fk_file_comments_repository_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_file_comments_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_file_comments")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_file_comments_file_id", "file_comments", ["file_id", "id"], unique=False)
    op.create_index("ix_file_comments_repository_id", "file_comments", ["repository_id"], unique=False)


def _tasks() -> None:
    op.create_table(
        "tasks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("column_id", sa.Text(), nullable=True),
        sa.Column("bucket_id", sa.BigInteger(), nullable=True),
        sa.Column("rank", sa.BigInteger(), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("priority", sa.Text(), nullable=True),
        sa.Column("deadline", sa.BigInteger(), nullable=True),
        sa.Column("cover_url", sa.Text(), nullable=True),
        sa.Column("fields", sa.Text(), nullable=False),
        sa.Column("sections", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("completed_at", sa.BigInteger(), nullable=True),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["bucket_id"], ["task_buckets.id"], name=op.f("fk_tasks_bucket_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["column_id"], ["columns.id"], name=op.f("fk_tasks_column_id"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["projects.repository_id"], name=op.f("fk_tasks_repository_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_tasks_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tasks")),
    )
    op.create_index("ix_tasks_bucket_id", "tasks", ["bucket_id", "rank"], unique=False)
    op.create_index("ix_tasks_column_id", "tasks", ["column_id"], unique=False)
    op.create_index(
        "ix_tasks_deleted_at",
        "tasks",
        ["deleted_at"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NOT NULL"),
        postgresql_where=sa.text("deleted_at IS NOT NULL"),
    )
    op.create_index("ix_tasks_repository_id", "tasks", ["repository_id", "id"], unique=False)


def _file_comment_replies() -> None:
    op.create_table(
        "file_comment_replies",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("file_comment_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("plain_body", sa.Text(), nullable=False),
        sa.Column("private", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["file_comment_id"],
            ["file_comments.id"],
            name=op.f("fk_file_comment_replies_file_comment_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["projects.repository_id"],
            name=op.f("fk_file_comment_replies_repository_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_file_comment_replies_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_file_comment_replies")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_file_comment_replies_file_comment_id", "file_comment_replies", ["file_comment_id", "id"], unique=False
    )
    op.create_index("ix_file_comment_replies_repository_id", "file_comment_replies", ["repository_id"], unique=False)


def _task_assignees() -> None:
    op.create_table(
        "task_assignees",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_task_assignees_task_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["user_id"], ["accounts.id"], name=op.f("fk_task_assignees_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("task_id", "user_id", name=op.f("pk_task_assignees")),
    )
    op.create_index("ix_task_assignees_user_id", "task_assignees", ["user_id"], unique=False)


def _task_comments() -> None:
    op.create_table(
        "task_comments",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("private", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["projects.repository_id"],
            name=op.f("fk_task_comments_repository_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_task_comments_task_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_task_comments_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task_comments")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_task_comments_repository_id", "task_comments", ["repository_id"], unique=False)
    op.create_index("ix_task_comments_task_id", "task_comments", ["task_id", "id"], unique=False)


def _timesheets() -> None:
    op.create_table(
        "timesheets",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=True),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("start_time", sa.BigInteger(), nullable=False),
        sa.Column("end_time", sa.BigInteger(), nullable=True),
        sa.Column("running_since", sa.BigInteger(), nullable=True),
        sa.Column("duration_ms", sa.BigInteger(), nullable=False),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("finished", sa.Boolean(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=True),
        sa.Column("billable", sa.Boolean(), nullable=False),
        sa.Column("billable_rate_minor", sa.BigInteger(), nullable=True),
        sa.Column("invoice_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["invoice_id"], ["invoices.id"], name=op.f("fk_timesheets_invoice_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["projects.repository_id"], name=op.f("fk_timesheets_repository_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_timesheets_task_id"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_timesheets_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_timesheets")),
    )
    op.create_index("ix_timesheets_invoice_id", "timesheets", ["invoice_id"], unique=False)
    op.create_index("ix_timesheets_repository_id", "timesheets", ["repository_id", "id"], unique=False)
    op.create_index("ix_timesheets_task_id", "timesheets", ["task_id"], unique=False)
    op.create_index(
        "uq_timesheets_running",
        "timesheets",
        ["user_id"],
        unique=True,
        sqlite_where=sa.text("is_active"),
        postgresql_where=sa.text("is_active"),
    )


def upgrade() -> None:
    _columns()
    _folders()
    _import_links()
    _files()
    _task_buckets()
    _file_comments()
    _tasks()
    _file_comment_replies()
    _task_assignees()
    _task_comments()
    _timesheets()
