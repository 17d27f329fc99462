"""Fill a PostgreSQL database with many copies of the rows that requests read most."""

from __future__ import annotations

from typing import Any

# Copies an existing row, changing some columns; `n` is the running number.
_COPY = (
    "INSERT INTO {table} SELECT (jsonb_populate_record(NULL::{table}, to_jsonb(t) || jsonb_build_object({changed}))).*"
    " FROM (SELECT * FROM {table} ORDER BY 1 LIMIT 1) AS t, generate_series({start}, {count}) AS n"
)
_COPIES: tuple[tuple[str, int, str], ...] = (
    ("accounts", 5000, "'id', 100000 + n, 'login', login || n, 'login_key', login_key || n, 'kind', 'user'"),
    (
        "tokens", 5000,
        "'id', 100000 + n, 'user_id', 100000 + n, 'root_id', 100000 + n,"
        " 'digest', '\\x' || encode(sha256(n::text::bytea), 'hex')",
    ),
    ("memberships", 5000, "'user_id', 100000 + n"),
    ("projects", 1000, "'repository_id', 100000 + n, 'id', id || n, 'name', name || n, 'name_key', name_key || n"),
)  # fmt: skip
_MORE = (
    "INSERT INTO columns (id, repository_id, title, position, finished, start_timer, created_at, updated_at)"
    " SELECT 'col_' || n, 100000 + n, 'Column', n, false, false, 1, 1 FROM {many} AS n",
    "INSERT INTO task_buckets (id, column_id, rank, size) SELECT 1000000 + n, 'col_' || n, 0, 0 FROM {many} AS n",
    "INSERT INTO tasks (number, id, repository_id, column_id, bucket_id, rank, title, fields, sections, labels,"
    " user_id, created_at, updated_at)"
    " SELECT m, 'tsk_' || n || '_' || m, 100000 + n, 'col_' || n, 1000000 + n, m << 16, 'Task',"
    " '{}', '{}', '[]', 100000 + n, 1, 1 FROM {many} AS n, generate_series(1, 40) AS m",
    # A few columns contain most of the tasks.
    "INSERT INTO task_buckets (id, column_id, rank, size)"
    " SELECT 5000000 + n, 'col_' || n % 8 + 1, n, 0 FROM {many} AS n",
    "INSERT INTO tasks (number, id, repository_id, column_id, bucket_id, rank, title, fields, sections, labels,"
    " user_id, created_at, updated_at)"
    " SELECT n * 50 + m, 'tsk_big_' || n || '_' || m, 100001 + n % 8, 'col_' || n % 8 + 1, 5000000 + n,"
    " m << 16, 'Task', '{}', '{}', '[]', 100001, 1, 1 FROM {many} AS n, generate_series(1, 50) AS m",
    "INSERT INTO task_numbers SELECT repository_id, max(number) FROM tasks WHERE repository_id > 100000 GROUP BY 1"
    " ON CONFLICT DO NOTHING",
    "INSERT INTO hooks (id, account_id, repository_id, active, events, config, version, created_at, updated_at)"
    " SELECT n, 1, 100000 + n, true, '[\"*\"]', '{}', 1, 1, 1 FROM {many} AS n",
    "INSERT INTO events (id, account_id, repository_id, name, action, payload, size, created_at)"
    " SELECT 2000000 + n, 1, 100000 + n % 1000 + 1, 'task', 'created', '{}', 2, n FROM {most} AS n",
    "INSERT INTO dispatches (id, event_id, hook_id, guid, attempts, retries, wanted, next_attempt_at, created_at)"
    " SELECT 3000000 + n, 2000000 + n, n % 1000 + 1, gen_random_uuid()::text, 0, 0, 0,"
    " CASE WHEN n % 4 = 0 THEN n END, n FROM {most} AS n",
)


async def fill(connection: Any, *, start: int = 1, count: int = 40_000, analyze: bool = True) -> None:
    """Insert the rows from `start` to `count`, capped per table at the size of a large server."""
    for table, most, changed in _COPIES:
        numbers = {"start": start, "count": min(most, count)}
        await connection.execute(_COPY.format(table=table, changed=changed, **numbers))
    for each in _MORE:
        for name, most in (("{many}", 1_000), ("{most}", 40_000)):
            each = each.replace(name, f"generate_series({start}, {min(most, count)})")
        await connection.execute(each)
    if analyze:
        await connection.execute("ANALYZE")
