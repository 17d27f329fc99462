"""Boards, files, comments and time."""

from workhook.storage.table_text import make_index, make_table

revision = "0003"
down_revision = "0002"


def _columns_and_files() -> None:
    make_table(
        "columns",
        "id text, repository_id bigint, title text, position bigint, stage text?, finished boolean, "
        "start_timer boolean, revision bigint=0, created_at bigint, updated_at bigint",
        foreign=["repository_id > projects.repository_id CASCADE"],
    )
    make_index("ix_columns_repository_id", "columns", "repository_id, position")
    make_table(
        "folders",
        "id text, repository_id bigint, title text, created_at bigint, updated_at bigint",
        foreign=["repository_id > projects.repository_id CASCADE"],
    )
    make_index("ix_folders_repository_id", "folders", "repository_id")
    make_table(
        "import_links",
        "account_id bigint, source text, external_id text, repository_id bigint, kind text, internal_id text, "
        "fingerprint text",
        key="account_id, source, external_id",
        foreign=["account_id > accounts.id", "repository_id > projects.repository_id CASCADE"],
    )
    make_index("ix_import_links_repository_id", "import_links", "repository_id")
    make_table(
        "files",
        "id text, repository_id bigint, folder_id text?, title text, name text, user_id bigint, private boolean, "
        "size bigint, content_type text, sha256 text, blob text, deleted_at bigint?, created_at bigint, "
        "updated_at bigint",
        foreign=[
            "folder_id > folders.id SET NULL",
            "repository_id > projects.repository_id CASCADE",
            "user_id > accounts.id",
        ],
    )
    make_index("ix_files_blob", "files", "blob", unique=True)
    make_index("ix_files_deleted_at", "files", "deleted_at", where="deleted_at IS NOT NULL")
    make_index("ix_files_folder_id", "files", "folder_id")
    make_index("ix_files_repository_id", "files", "repository_id, id")


def _tasks() -> None:
    make_table(
        "task_buckets",
        "id bigint, column_id text, rank bigint, size bigint",
        foreign=["column_id > columns.id CASCADE"],
    )
    make_index("ix_task_buckets_column_id", "task_buckets", "column_id, rank")
    make_table(
        "file_comments",
        "id bigserial, repository_id bigint, file_id text, user_id bigint, text text, private boolean, "
        "created_at bigint, updated_at bigint",
        foreign=[
            "file_id > files.id CASCADE",
            "repository_id > projects.repository_id CASCADE",
            "user_id > accounts.id",
        ],
    )
    make_index("ix_file_comments_file_id", "file_comments", "file_id, id")
    make_index("ix_file_comments_repository_id", "file_comments", "repository_id")
    make_table(
        "tasks",
        "id text, repository_id bigint, column_id text?, bucket_id bigint?, rank bigint?, title text, "
        "description text?, priority text?, deadline bigint?, cover_url text?, fields text, sections text, "
        "labels text, user_id bigint, completed_at bigint?, deleted_at bigint?, created_at bigint, updated_at bigint",
        foreign=[
            "bucket_id > task_buckets.id SET NULL",
            "column_id > columns.id SET NULL",
            "repository_id > projects.repository_id CASCADE",
            "user_id > accounts.id",
        ],
    )
    make_index("ix_tasks_bucket_id", "tasks", "bucket_id, rank")
    make_index("ix_tasks_column_id", "tasks", "column_id")
    make_index("ix_tasks_deleted_at", "tasks", "deleted_at", where="deleted_at IS NOT NULL")
    make_index("ix_tasks_repository_id", "tasks", "repository_id, id")


def _replies_and_timesheets() -> None:
    make_table(
        "file_comment_replies",
        "id bigserial, repository_id bigint, file_comment_id bigint, user_id bigint, body text, plain_body text, "
        "private boolean, created_at bigint, updated_at bigint",
        foreign=[
            "file_comment_id > file_comments.id CASCADE",
            "repository_id > projects.repository_id CASCADE",
            "user_id > accounts.id",
        ],
    )
    make_index("ix_file_comment_replies_file_comment_id", "file_comment_replies", "file_comment_id, id")
    make_index("ix_file_comment_replies_repository_id", "file_comment_replies", "repository_id")
    make_table(
        "task_assignees",
        "task_id text, user_id bigint",
        key="task_id, user_id",
        foreign=["task_id > tasks.id CASCADE", "user_id > accounts.id CASCADE"],
    )
    make_index("ix_task_assignees_user_id", "task_assignees", "user_id")
    make_table(
        "task_comments",
        "id bigserial, repository_id bigint, task_id text, user_id bigint, text text, private boolean, "
        "created_at bigint, updated_at bigint",
        foreign=[
            "repository_id > projects.repository_id CASCADE",
            "task_id > tasks.id CASCADE",
            "user_id > accounts.id",
        ],
    )
    make_index("ix_task_comments_repository_id", "task_comments", "repository_id")
    make_index("ix_task_comments_task_id", "task_comments", "task_id, id")
    make_table(
        "timesheets",
        "id text, repository_id bigint, task_id text?, user_id bigint, start_time bigint, end_time bigint?, "
        "running_since bigint?, duration_ms bigint, is_active boolean, finished boolean, notes text?, "
        "billable boolean, billable_rate_minor bigint?, invoice_id text?, created_at bigint, updated_at bigint",
        foreign=[
            "invoice_id > invoices.id SET NULL",
            "repository_id > projects.repository_id CASCADE",
            "task_id > tasks.id SET NULL",
            "user_id > accounts.id",
        ],
    )
    make_index("ix_timesheets_invoice_id", "timesheets", "invoice_id")
    make_index("ix_timesheets_repository_id", "timesheets", "repository_id, id")
    make_index("ix_timesheets_task_id", "timesheets", "task_id")
    make_index("uq_timesheets_running", "timesheets", "user_id", unique=True, where="is_active")


def upgrade() -> None:
    _columns_and_files()
    _tasks()
    _replies_and_timesheets()
