"""Sums over timesheets, for reports: triggers note each change of a timesheet, and what is there is summed up.

`work/time/timesheets/sums.py` says what for. On PostgreSQL others write meanwhile: each statement that sums up sees
the timesheets and the notes of one moment, and takes the notes away whose changes it has seen. What is interrupted
begins again.
"""

# ruff: noqa: S608  # the statements are made of names and numbers that stand here

import sqlalchemy as sa
import structlog
from alembic import op

from workhook.storage.online import create_index, create_table, create_trigger
from workhook.storage.table_text import make_table

revision = "0015"
down_revision = "0014"

log = structlog.get_logger(__name__)

ROWS_AT_ONCE = 50_000

_SUMS = ("timesheets", "duration_ms", "amount_minor")
_NOTED = ("repository_id", "user_id", "task_id", "billable", "invoiced", "start_time", *_SUMS)
_QUARTER, _DAY, _BLOCK = 900_000, 86_400_000, 32 * 86_400_000
# Grain, the length of a period, and whose time.
_GRAINS = (
    (1, _QUARTER, "0", "''"),
    (2, _DAY, "0", "''"),
    (3, _DAY, "user_id", "''"),
    (4, _BLOCK, "user_id", "''"),
    (5, _BLOCK, "user_id", "coalesce(task_id, '')"),
)


def _amount(row: str) -> str:
    """As of an invoice: rounded once; the hours are split off so that the product stays within 64 bits."""
    spent, rate = f"{row}duration_ms", f"{row}billable_rate_minor"
    product = f"({spent} / 3600000) * {rate} + (({spent} % 3600000) * {rate} + 1800000) / 3600000"
    return f"CASE WHEN {row}billable AND {rate} IS NOT NULL THEN {product} ELSE 0 END"


def _note(row: str, sign: str, table: str = "timesheet_changes") -> str:
    values = (
        f"{row}repository_id", f"{row}user_id", f"coalesce({row}task_id, '')", f"{row}billable",
        f"{row}invoice_id IS NOT NULL", f"{row}start_time", f"{sign}1", f"{sign}{row}duration_ms",
        f"{sign}({_amount(row)})",
    )  # fmt: skip
    return f"INSERT INTO {table} ({', '.join(_NOTED)}) SELECT {', '.join(values)} WHERE NOT {row}is_active;"


_COLUMNS = (
    "repository_id", "user_id", "task_id", "start_time", "duration_ms", "is_active", "billable", "billable_rate_minor",
    "invoice_id",
)  # fmt: skip


def upgrade() -> None:
    _make_tables()
    if op.get_bind().dialect.name == "sqlite":
        _sqlite_triggers()
    else:
        _postgresql_triggers()
    create_index("ix_timesheets_started", "timesheets", ["repository_id", "start_time"])
    create_index("ix_timesheets_active", "timesheets", ["repository_id", "start_time"], where="is_active")
    _sum_up()


def _make_tables() -> None:
    counted = ", ".join(f"{each} bigint" for each in _SUMS)
    make_table(
        "timesheet_changes",
        "id bigserial, repository_id bigint, user_id bigint, task_id text, billable boolean, invoiced boolean, "
        f"start_time bigint, {counted}",
        create=create_table,
    )
    make_table(
        "timesheet_sums",
        "repository_id bigint, grain smallint, period bigint, user_id bigint, task_id text, billable boolean, "
        f"invoiced boolean, {counted}",
        key="repository_id, grain, period, user_id, task_id, billable, invoiced",
        create=create_table,
        sqlite_with_rowid=False,
    )
    create_index("ix_timesheet_changes_repository_id", "timesheet_changes", ["repository_id", "start_time"])
    create_index("ix_timesheet_sums_empty", "timesheet_sums", ["repository_id"], where="timesheets = 0")


def _sqlite_triggers() -> None:
    more, less = _note("new.", ""), _note("old.", "-")
    changed = " OR ".join(f"old.{each} IS NOT new.{each}" for each in _COLUMNS)
    op.execute(f"CREATE TRIGGER timesheet_sums_insert AFTER INSERT ON timesheets BEGIN {more} END")
    op.execute(f"CREATE TRIGGER timesheet_sums_delete AFTER DELETE ON timesheets BEGIN {less} END")
    op.execute(
        f"CREATE TRIGGER timesheet_sums_update AFTER UPDATE OF {', '.join(_COLUMNS)} ON timesheets WHEN {changed} "
        f"BEGIN {less} {more} END"
    )


def _postgresql_triggers() -> None:
    changed = " OR ".join(f"old.{each} IS DISTINCT FROM new.{each}" for each in _COLUMNS)
    # A dump is restored with no search path: functions name the schema.
    table = op.get_bind().scalar(sa.text("SELECT quote_ident(current_schema()) || '.timesheet_changes'"))
    more, less = _note("new.", "", table), _note("old.", "-", table)
    _trigger("timesheet_sums_insert", "AFTER INSERT ON timesheets FOR EACH ROW", more)
    _trigger("timesheet_sums_delete", "AFTER DELETE ON timesheets FOR EACH ROW", less)
    update = f"AFTER UPDATE OF {', '.join(_COLUMNS)} ON timesheets FOR EACH ROW WHEN ({changed})"
    _trigger("timesheet_sums_update", update, f"{less} {more}")


def _trigger(name: str, event: str, body: str) -> None:
    create_trigger(
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NULL; END $$",
        f"CREATE OR REPLACE TRIGGER {name} {event} EXECUTE FUNCTION {name}()",
    )


def _sum_up() -> None:
    # Also of those of which only notes are left: their last timesheet went while the indexes were built.
    both = "SELECT repository_id FROM timesheets UNION ALL SELECT repository_id FROM timesheet_changes"
    asked = f"SELECT repository_id, count(*) FROM ({both}) AS places GROUP BY repository_id"
    rows = op.get_bind().execute(sa.text(asked))
    places = sorted((int(place), int(count)) for place, count in rows)
    total, done = sum(count for _, count in places), 0
    if op.get_bind().dialect.name == "sqlite":
        log.info("summing_up_timesheets", timesheets=0, of=total)
        op.execute(sa.text(_insert("")))
        return
    # Nobody adds notes to sums yet: servers of this version wait for the migration.
    with op.get_context().autocommit_block():
        # It waits for the statement of a migration that was killed, which goes on for a moment.
        op.execute(sa.text("TRUNCATE timesheet_sums"))
        while places:
            ids, count = [places[0][0]], places.pop(0)[1]
            while places and count + places[0][1] <= ROWS_AT_ONCE:
                ids.append(places[0][0])
                count += places.pop(0)[1]
            listed = f"repository_id IN ({', '.join(map(str, ids))})"
            seen = f"WITH seen AS (DELETE FROM timesheet_changes WHERE {listed})"
            op.execute(sa.text(f"{seen} {_insert(f'AND {listed}')}"))
            done += count
            log.info("summing_up_timesheets", timesheets=done, of=total)


def _insert(which: str) -> str:
    keys = "repository_id, grain, period, user_id, task_id, billable, invoiced"
    parts = " UNION ALL ".join(
        f"SELECT repository_id, {grain} AS grain, start_time / {unit} AS period, {user} AS user_id, {task} AS task_id,"
        f" billable, invoice_id IS NOT NULL AS invoiced, duration_ms, {_amount('')} AS amount_minor"
        f" FROM timesheets WHERE NOT is_active {which}"
        for grain, unit, user, task in _GRAINS
    )
    return (
        f"INSERT INTO timesheet_sums ({keys}, {', '.join(_SUMS)})"
        f" SELECT {keys}, count(*), sum(duration_ms), sum(amount_minor) FROM ({parts}) AS parts GROUP BY {keys}"
    )
