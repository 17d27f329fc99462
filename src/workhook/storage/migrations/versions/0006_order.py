"""The order of tasks: triggers that make a column's first bucket, keep the sizes of buckets, and count revisions.

`work/tasks/schemas.py` says what for. On SQLite, which has one writer, nobody waits while another changes the order, so
nobody asks for a revision: it stays.
"""

# ruff: noqa: S608  # the statements are made of names that stand here

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        _sqlite()
    else:
        _postgresql()


def _sqlite() -> None:
    more = "UPDATE task_buckets SET size = size + 1 WHERE id = new.bucket_id;"
    less = "UPDATE task_buckets SET size = size - 1 WHERE id = old.bucket_id;"
    first = "INSERT INTO task_buckets (id, column_id, rank, size) VALUES (random() >> 2 & ~(3 << 62), new.id, 0, 0);"
    op.execute(f"CREATE TRIGGER task_order_first AFTER INSERT ON columns BEGIN {first} END")
    op.execute(f"CREATE TRIGGER task_order_insert AFTER INSERT ON tasks BEGIN {more} END")
    op.execute(f"CREATE TRIGGER task_order_delete AFTER DELETE ON tasks BEGIN {less} END")
    op.execute(
        "CREATE TRIGGER task_order_update AFTER UPDATE OF bucket_id ON tasks "
        f"WHEN old.bucket_id IS NOT new.bucket_id BEGIN {less} {more} END"
    )


def _postgresql() -> None:
    _trigger(
        "task_order_first",
        "AFTER INSERT ON columns FOR EACH ROW",
        # 62 bits of the id, which is random.
        """INSERT INTO {schema}task_buckets (id, column_id, rank, size)
        VALUES (hashtextextended(new.id, 0) & ~(3::bigint << 62), new.id, 0, 0);""",
    )
    # A statement that inserts or deletes thousands changes each bucket and column once.
    _trigger(
        "task_order_insert", "AFTER INSERT ON tasks REFERENCING NEW TABLE AS touched FOR EACH STATEMENT", _many("+")
    )
    _trigger(
        "task_order_delete", "AFTER DELETE ON tasks REFERENCING OLD TABLE AS touched FOR EACH STATEMENT", _many("-")
    )
    when = "old.bucket_id IS DISTINCT FROM new.bucket_id OR old.rank IS DISTINCT FROM new.rank"
    other = "old.bucket_id IS DISTINCT FROM new.bucket_id"
    _trigger(
        "task_order_update",
        f"AFTER UPDATE OF bucket_id, rank ON tasks FOR EACH ROW WHEN ({when})",
        f"""IF {other} THEN
        UPDATE {{schema}}task_buckets SET size = size - 1 WHERE id = old.bucket_id;
        UPDATE {{schema}}task_buckets SET size = size + 1 WHERE id = new.bucket_id;
        END IF;
        UPDATE {{schema}}columns SET revision = revision + 1 WHERE id IN (old.column_id, new.column_id);""",
    )


def _many(sign: str) -> str:
    return f"""UPDATE {{schema}}task_buckets AS bucket SET size = bucket.size {sign} counted.size
        FROM (SELECT bucket_id, count(*) AS size FROM touched GROUP BY bucket_id) AS counted
        WHERE bucket.id = counted.bucket_id;
        UPDATE {{schema}}columns SET revision = revision + 1 WHERE id IN
        (SELECT column_id FROM touched WHERE bucket_id IS NOT NULL);"""


def _trigger(name: str, event: str, body: str) -> None:
    # A dump is restored with no search path: functions name the schema.
    schema = op.get_bind().scalar(sa.text("SELECT quote_ident(current_schema()) || '.'"))
    text = body.replace("{schema}", schema)
    op.get_bind().exec_driver_sql(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {text} RETURN NULL; END $$"
    )
    op.get_bind().exec_driver_sql(f"CREATE TRIGGER {name} {event} EXECUTE FUNCTION {name}()")
