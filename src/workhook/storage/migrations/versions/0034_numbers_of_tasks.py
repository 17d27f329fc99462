"""What a task says of its time, its number in its project, and which commits have closed it.

Tasks that were there are numbered in the order of their ids, which is that of their creation, also those in the trash.
On PostgreSQL others write meanwhile: servers of the version before make tasks without a number, and a trigger gives
them the next one. Each step numbers some hundred tasks of one project and notes how far it came, so others wait for no
longer than that, and what is interrupted goes on there.
"""

# ruff: noqa: S608  # the statements are made of names and numbers that stand here

import sqlalchemy as sa
import structlog
from alembic import op

from workhook.storage.online import add_column, create_index, create_table, create_trigger
from workhook.storage.table_text import column, make_table

revision = "0034"
down_revision = "0033"

log = structlog.get_logger(__name__)

ROWS_AT_ONCE = 500
LOGGED_EACH = 100  # steps

_TERMS = (("hourly_rate_minor", sa.BigInteger), ("billable", sa.Boolean), ("estimate_ms", sa.BigInteger))


def upgrade() -> None:
    for name, kind in _TERMS:
        add_column("tasks", sa.Column(name, kind))
    add_column("tasks", column("number bigint=0"))  # 0: it has none yet
    make_table(
        "task_numbers",
        "repository_id bigint, last bigint",
        key="repository_id",
        foreign=["repository_id > projects.repository_id CASCADE"],
        create=create_table,
    )
    make_table(
        "closing_commits",
        "task_id text, commit_id text",
        key="task_id, commit_id",
        foreign=["task_id > tasks.id CASCADE"],
        create=create_table,
    )
    if op.get_bind().dialect.name == "sqlite":
        _number_on_sqlite()
    else:
        _create_trigger()
        _number_on_postgresql()
    create_index("uq_tasks_number", "tasks", ["repository_id", "number"], unique=True, where="number > 0")


def _number_on_sqlite() -> None:
    counted = "row_number() OVER (PARTITION BY repository_id ORDER BY id)"
    op.execute(
        f"UPDATE tasks SET number = counted.number FROM (SELECT id, {counted} AS number FROM tasks) AS counted"
        " WHERE counted.id = tasks.id"
    )
    op.execute("INSERT INTO task_numbers SELECT repository_id, count(*) FROM tasks GROUP BY repository_id")


def _create_trigger() -> None:
    # A dump is restored with no search path: functions name the schema.
    schema = op.get_bind().scalar(sa.text("SELECT quote_ident(current_schema())"))
    tasks, counters = f"{schema}.tasks", f"{schema}.task_numbers"
    # Tasks without a number come first. There will be no more of them: the trigger was made while nobody wrote.
    first = f"SELECT count(*) FROM {tasks} WHERE repository_id = new.repository_id AND number = 0"
    body = (
        f"UPDATE {counters} SET last = last + 1 WHERE repository_id = new.repository_id"
        " RETURNING last INTO new.number; IF NOT FOUND THEN"
        f" INSERT INTO {counters} AS counter (repository_id, last) VALUES (new.repository_id, ({first}) + 1)"
        " ON CONFLICT (repository_id) DO UPDATE SET last = counter.last + 1 RETURNING last INTO new.number; END IF;"
        " RETURN new;"
    )
    create_trigger(
        f"CREATE OR REPLACE FUNCTION number_task() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$",
        "CREATE OR REPLACE TRIGGER number_task BEFORE INSERT ON tasks FOR EACH ROW WHEN (new.number = 0)"
        " EXECUTE FUNCTION number_task()",
    )


_PLACES = """
INSERT INTO task_numbering SELECT DISTINCT repository_id, '', 0 FROM tasks WHERE number = 0 ON CONFLICT DO NOTHING
"""
_UNDONE = "SELECT repository_id FROM task_numbering ORDER BY repository_id"
_COUNTER = """
INSERT INTO task_numbers (repository_id, last)
SELECT repository_id, count(*) FROM tasks WHERE repository_id = :place AND number = 0 GROUP BY repository_id
ON CONFLICT DO NOTHING
"""
_STEP = f"""
WITH place AS (SELECT after_id, numbered FROM task_numbering WHERE repository_id = :place),
fetched AS (
    SELECT tasks.id FROM tasks, place
    WHERE tasks.repository_id = :place AND tasks.id > place.after_id AND tasks.number = 0
    ORDER BY tasks.id LIMIT {ROWS_AT_ONCE} FOR NO KEY UPDATE OF tasks
),
counted AS (SELECT id, row_number() OVER (ORDER BY id) AS n FROM fetched),
done AS (
    UPDATE tasks SET number = place.numbered + counted.n FROM counted, place WHERE tasks.id = counted.id
    RETURNING tasks.id
)
UPDATE task_numbering SET numbered = numbered + (SELECT count(*) FROM done),
after_id = coalesce((SELECT max(id) FROM counted), after_id) WHERE repository_id = :place
"""
_REST = "SELECT 1 FROM tasks WHERE repository_id = :place AND number = 0 LIMIT 1"
_DONE = "DELETE FROM task_numbering WHERE repository_id = :place"


def _number_on_postgresql() -> None:
    names = "repository_id bigint, after_id text, numbered bigint"
    make_table("task_numbering", names, key="repository_id", create=create_table)
    connection, steps = op.get_bind(), 0
    with op.get_context().autocommit_block():
        op.execute(_PLACES)
        for (place,) in connection.execute(sa.text(_UNDONE)).all():
            connection.execute(sa.text(_COUNTER), {"place": place})
            while connection.execute(sa.text(_REST), {"place": place}).scalar() is not None:
                connection.execute(sa.text(_STEP), {"place": place})
                steps += 1
                if steps % LOGGED_EACH == 0:
                    log.info("numbering_tasks", tasks=steps * ROWS_AT_ONCE)
            connection.execute(sa.text(_DONE), {"place": place})
        op.execute("DROP TABLE task_numbering")
