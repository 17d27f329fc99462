"""Fill a database, with the same statements for both kinds.

Each table gets `2 * ROWS` rows: the even ones in the project under test, the odd ones in another project of the same
organization. In SQL, `i` is the row's number in the table, `k` its number in the project.

`rare` is true for one row in a thousand, among the newest, so a query that scans everything to find such a row is
detected. In the other project, `rare` is true for all other rows. Lists that start with the newest rows need the same
for the oldest, which is `old`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tests.harness.world import World
from workhook.core.clock import DAY_MS, now_ms
from workhook.http.calls import Services
from workhook.identity import queries

ROWS = 4000
"""Rows per project. A page shows only a few."""

START = 1_700_000_000_000
"""The creation time of the first row. Each later row is a second newer."""

Columns = Mapping[str, str]


@dataclass(frozen=True)
class Fill:
    """Rows for a table. `columns` maps each column to the SQL of its value."""

    table: str
    columns: Columns
    rows: int = 2 * ROWS


IN_PROJECT = "CASE WHEN i % 2 = 0 THEN {repository} ELSE {other_repository} END"
K = "(i / 2)"
RARE = f"(({K} % 1000 = 999) = (i % 2 = 0))"
OLD = f"(({K} % 1000 = 1 AND {K} < 1100) = (i % 2 = 0))"
AT = f"({START} + i * 1000)"
MIXED = f"({START} + (i * 7919 % {2 * ROWS}) * 1000)"
"""Times in a different order than the IDs."""


def text_id(prefix: str, number: str = "i") -> str:
    """Return SQL for IDs that grow with the number."""
    return f"('{prefix}_' || substr(CAST(1000000000 + {number} AS TEXT), 2))"


EACH_FOURTH = f"(CASE WHEN i % 2 = 0 THEN {K} / 1000 ELSE {K} END % 4)"
"""From 0 to 3 in turn, also among the rare rows."""

TIMES = {"created_at": AT, "updated_at": MIXED}
OFTEN_OR_RARE = f"CASE WHEN {RARE} THEN {{rare}} ELSE {{often}} END"
WORDS = f"'Word ' || CASE WHEN {RARE} THEN 'seldom' ELSE 'common' END || ' w' || i"

TASK_OF_TIMESHEET = text_id("tsk", f"CASE WHEN {RARE} THEN 2 ELSE 0 END + i % 2")

HALF_OF_ONE = f"CASE WHEN {K} % 2 = 1 THEN i % 2 ELSE i END"
"""Half of the rows belong to the first of a project, the others to one each. A plan for any of them expects one."""

COLUMN_TASKS = 200
BUCKET_TASKS = 50

WORK = (
    Fill(
        "columns",
        {
            "id": text_id("col"), "repository_id": IN_PROJECT, "title": "'Column ' || i", "position": "i",
            "finished": "false", "start_timer": "false", **TIMES,
        },
        rows=2 * ROWS // COLUMN_TASKS,
    ),
    Fill(
        "task_buckets",
        {
            "id": "i + 1000", "rank": "(i + 1) * 1000", "size": "0",
            "column_id": text_id("col", f"((i / 2) * {BUCKET_TASKS} / {COLUMN_TASKS} * 2 + i % 2)"),
        },
        rows=2 * ROWS // BUCKET_TASKS,
    ),
    Fill(
        "tasks",
        {
            "id": text_id("tsk"), "number": "100000 + i", "repository_id": IN_PROJECT,
            "column_id": text_id("col", f"({K} / {COLUMN_TASKS} * 2 + i % 2)"),
            "bucket_id": f"({K} / {BUCKET_TASKS} * 2 + i % 2) + 1000", "rank": "i",
            "title": f"CASE WHEN {RARE} THEN 'seldom' ELSE 'common' END || ' w' || (i * 7919 % {2 * ROWS})",
            "priority": f"CASE WHEN {RARE} THEN 'low' ELSE 'high' END",
            "deadline": f"CASE WHEN {K} % 2 = 1 OR {RARE} THEN {MIXED} END",
            "fields": "'{{}}'", "sections": "'{{}}'",
            "labels": f"CASE WHEN {RARE} THEN '[\"often\",\"rare\"]' ELSE '[\"often\"]' END",
            "user_id": "{often}", "completed_at": f"CASE WHEN {RARE} THEN {AT} END",
            "parent_id": f"CASE WHEN {K} % 8 IN (3, 5, 6) THEN {text_id('tsk', f'({K} - {K} % 8) * 2 + i % 2')} END",
            "deleted_at": f"CASE WHEN {K} % 10 = 7 THEN {AT} END", **TIMES,
        },
    ),
    Fill(
        "task_blockers",
        {"task_id": text_id("tsk", "i + 2"), "blocker_id": text_id("tsk", "i % 2")},
        rows=200,
    ),
    Fill("task_assignees", {"task_id": text_id("tsk"), "user_id": OFTEN_OR_RARE}),
    Fill(
        "task_comments",
        {
            "repository_id": IN_PROJECT, "task_id": text_id("tsk", HALF_OF_ONE), "user_id": "{often}",
            "text": WORDS, "private": f"NOT {RARE}", **TIMES,
        },
    ),
    Fill("folders", {"id": text_id("fld"), "repository_id": IN_PROJECT, "title": "'Folder ' || i", **TIMES}),
    Fill(
        "files",
        {
            "id": text_id("fil"), "repository_id": IN_PROJECT, "name": "'a.txt'", "user_id": "{often}",
            "folder_id": f"CASE WHEN {RARE} THEN {text_id('fld', '1')} ELSE {text_id('fld', '0')} END",
            "task_id": f"CASE WHEN {RARE} THEN {text_id('tsk', '2')} WHEN {K} % 2 = 0 THEN {text_id('tsk', '0')} END",
            "title": WORDS, "private": f"NOT {RARE} AND i > 1", "size": "1", "sha256": "'00'",
            "content_type": "'text/plain'", "blob": "'blob' || i",
            "deleted_at": f"CASE WHEN {K} % 10 = 7 THEN {AT} END", **TIMES,
        },
    ),
    Fill(
        "file_comments",
        {
            "repository_id": IN_PROJECT, "file_id": text_id("fil", HALF_OF_ONE), "user_id": "{often}",
            "text": WORDS, "private": f"NOT {RARE}", **TIMES,
        },
    ),
    Fill(
        "file_comment_replies",
        {
            "repository_id": IN_PROJECT, "file_comment_id": "i + 1", "user_id": "{often}", "body": WORDS,
            "plain_body": WORDS, "private": f"NOT {RARE}", **TIMES,
        },
    ),
    Fill(
        "services",
        {
            # An organization has a few dozen, and there are many organizations.
            "id": text_id("srv"), "title": "'Service ' || i", "active": "i % 400 = 0", "addon": "false",
            "account_id": "CASE WHEN i % 80 = 0 THEN {organization} ELSE {other_organization} END",
            "position": "i", "disable_pause": "false",
            "disable_quantity": "false", "cancel_at_period_end": "false", "require_payment_method": "false",
            "prices": "'[]'", **TIMES,
        },
    ),
    Fill(
        "service_checkouts",
        {
            "id": text_id("chk"), "repository_id": IN_PROJECT, "service_id": text_id("srv", "i % 2"),
            "user_id": "{often}", "qty": "1", "pauses": "0", "periods": "1", "anchor_periods": "1",
            "deleted_at": f"CASE WHEN {K} % 10 = 7 THEN {AT} END", **TIMES,
        },
    ),
    Fill(
        "task_credits",
        {
            "id": text_id("crd"), "repository_id": IN_PROJECT, "kind": "'grant'", "amount_minor": "100",
            "balance_after_minor": "100 * (i + 1)", "remaining_minor": f"CASE WHEN {RARE} THEN 100 ELSE 0 END",
            "uses": "'[]'", "user_id": "{often}", "reversed": "false", **TIMES,
        },
    ),
    Fill(
        "invoices",
        {
            "id": text_id("inv"), "repository_id": IN_PROJECT, "account_id": "{organization}", "user_id": "{often}",
            "invoice_number": "'n' || i", "bill_to": "'common'",
            "status": f"CASE WHEN {K} % 1000 = 7 THEN 'sent'"
            f" WHEN NOT {RARE} THEN CASE WHEN i % 2 = 0 THEN 'paid' ELSE 'sent' END"
            f" WHEN {EACH_FOURTH} = 0 THEN 'draft' WHEN {EACH_FOURTH} = 1 THEN 'void'"
            f" WHEN {EACH_FOURTH} = 2 THEN 'partially_paid' ELSE 'credited' END",
            "paid_minor": "100",
            "amount_minor": "100", "total_minor": "100", "currency": "'EUR'",
            **dict.fromkeys(
                ("due", "overdue_at"), f"CASE WHEN {RARE} OR {K} % 1000 = 7 THEN {AT} ELSE 4000000000000 END"
            ),
            "items": "'[]'",
            "recurring_items": "'[]'", "taxes": "'[]'", "language": "'en'", "seller": "'{{}}'", **TIMES,
        },
    ),
    Fill("account_billing", {"account_id": "i + 1000000", "legal_name": WORDS}),
    Fill("member_rates", {"account_id": "i + 1000000", "user_id": "i + 1000000", "hourly_rate_minor": "i"}),
    Fill(
        "payments",
        {
            "id": text_id("pay"), "repository_id": IN_PROJECT, "invoice_id": text_id("inv", HALF_OF_ONE),
            "user_id": "{often}", "kind": "'payment'", "amount_minor": "100", "currency": "'EUR'", "paid_at": AT,
            "created_at": AT, "position": "i",
        },
    ),
    Fill(
        "credit_notes",
        {
            "id": text_id("crn"), "repository_id": IN_PROJECT, "account_id": "{organization}",
            "invoice_id": text_id("inv", HALF_OF_ONE), "user_id": "{often}", "credit_note_number": "'n' || i",
            "amount_minor": "100", "taxes": "'[]'", "total_minor": "100", "currency": "'EUR'", "reason": WORDS,
            "issued": AT, "items": "'[]'", "position": "i",
        },
    ),
    Fill(
        "timesheets",
        {
            "id": text_id("tms"), "repository_id": IN_PROJECT, "task_id": TASK_OF_TIMESHEET,
            "user_id": OFTEN_OR_RARE, "start_time": MIXED, "end_time": f"{MIXED} + 3600000",
            "duration_ms": "3600000", "is_active": "false", "finished": RARE,
            "billable": RARE, "billable_rate_minor": "8000",
            "invoice_id": f"CASE WHEN {RARE} THEN {text_id('inv', '0')} END", **TIMES,
        },
    ),
    Fill(
        "timesheets",
        {
            "id": text_id("tmt"), "repository_id": IN_PROJECT, "task_id": text_id("tsk", "i % 2"),
            "user_id": "i + 1000000", "start_time": AT, "running_since": AT, "duration_ms": "0", "is_active": "true",
            "finished": "false", "billable": "false", **TIMES,
        },
        rows=4,
    ),
)  # fmt: skip
"""Rows of the work API, in the order of their references."""

PEOPLE = (
    Fill(
        "accounts",
        {
            "id": "i + 1000000", "kind": "'user'", "login": "'many-' || i", "login_key": "'many-' || i", **TIMES,
        },
    ),
    Fill(
        "memberships",
        {"organization_id": "{organization}", "user_id": "i + 1000000", "role": "'member'", "created_at": AT},
        rows=ROWS,
    ),
    Fill(
        "collaborators",
        {"repository_id": IN_PROJECT, "user_id": "i + 1000000", "role": "'write'", "created_at": AT},
    ),
    Fill(
        "clients",
        {
            "id": text_id("cli"), "repository_id": IN_PROJECT, "user_id": "i + 1000000", "email": "'a@example.com'",
            **TIMES,
        },
    ),
    Fill(
        "projects",
        {
            "id": text_id("prj"), "account_id": "CASE WHEN i % 2 = 0 THEN {organization} ELSE {other_organization} END",
            "name": "'many-' || i", "name_key": "'many-' || i", "title": "'Project ' || i",
            # Members see few of them.
            "private": f"{K} % 1000 < 990", "archive": "false",
            "deleted_at": f"CASE WHEN {K} % 2 = 1 THEN {{recent}} + i END", **TIMES,
        },
    ),
)  # fmt: skip

FILTERS = (
    Fill(
        "board_filters",
        {"user_id": "i + 1000000", "repository_id": "{other_repository}", "filters": "'x'", "updated_at": AT},
    ),
)  # fmt: skip
"""Many users have filtered the same board."""

_MENTION = {"repository_id": IN_PROJECT, "author_id": "{often}", "created_at": AT}
MENTIONS = (
    Fill("mentions", {**_MENTION, "user_id": OFTEN_OR_RARE, "task_comment_id": "i + 1"}),
    Fill("mentions", {**_MENTION, "user_id": "{often}", "file_comment_reply_id": "i + 1"}),
    Fill("mentions", {**_MENTION, "user_id": "i + 1000000", "file_comment_id": "i + 1"}),
)
"""Comments mention one person thousands of times, and thousands of people once."""

_NOTIFICATION = {
    "repository_id": IN_PROJECT, "account_id": "{organization}", "actor_id": "{often}", "kind": "'assignment'",
    "created_at": AT,
}  # fmt: skip
NOTIFICATIONS = (
    Fill("notifications", {**_NOTIFICATION, "user_id": OFTEN_OR_RARE, "task_id": text_id("tsk")}),
    Fill("notifications", {**_NOTIFICATION, "user_id": "{often}", "task_id": text_id("tsk"), "read_at": AT}),
    Fill("notifications", {**_NOTIFICATION, "user_id": "i + 1000000", "task_id": text_id("tsk")}),
)
"""One person has thousands of notifications, and thousands of people have one."""

FEEDS = (
    Fill(
        "calendar_feeds",
        {
            "user_id": "i + 1000000", "repository_id": "{other_repository}", "digest": "CAST('feed' || i AS {bytes})",
            "created_at": AT,
        },
    ),
    Fill(
        "calendar_feeds",
        {"user_id": "{often}", "repository_id": IN_PROJECT, "digest": "CAST('own' || i AS {bytes})", "created_at": AT},
        rows=10,
    ),
)  # fmt: skip
"""Calendar feeds: many people have one of the same project."""


RARE_ID, OFTEN_ID, OTHER_ORGANIZATION_ID, OTHER_REPOSITORY_ID = 900_001, 900_002, 900_003, 900_004
RARE_LOGIN, OFTEN_LOGIN = "rare", "often"

_account = "INSERT INTO accounts (id, kind, login, login_key, created_at, updated_at) VALUES"
FIRST = (
    f"{_account} ({RARE_ID}, 'user', '{RARE_LOGIN}', '{RARE_LOGIN}', 1, 1)",
    f"{_account} ({OFTEN_ID}, 'user', '{OFTEN_LOGIN}', '{OFTEN_LOGIN}', 1, 1)",
    f"{_account} ({OTHER_ORGANIZATION_ID}, 'organization', 'others', 'others', 1, 1)",
    "INSERT INTO projects (repository_id, id, account_id, name, name_key, title, private, archive, created_at,"
    f" updated_at) VALUES ({OTHER_REPOSITORY_ID}, 'prj_other', {{organization}}, 'x', 'x', 'X', false, false, 1, 1)",
    f"INSERT INTO memberships VALUES ({{organization}}, {RARE_ID}, 'member', 1)",
    f"INSERT INTO memberships VALUES ({{organization}}, {OFTEN_ID}, 'member', 1)",
)
"""The accounts and the project which the rows refer to."""


def statements(first: Sequence[str], fills: Sequence[Fill], known: Mapping[str, int | str]) -> Iterator[str]:
    """Yield the SQL that fills the tables. `known` contains the IDs used in the values."""
    yield from (each.format_map(known) for each in first)
    for fill in fills:
        names, values = ", ".join(fill.columns), ", ".join(fill.columns.values()).format_map(known)
        numbers = f"SELECT CAST(0 AS BIGINT) UNION ALL SELECT i + 1 FROM numbers WHERE i < {fill.rows - 1}"
        yield (
            f"INSERT INTO {fill.table} ({names}) WITH RECURSIVE numbers (i) AS ({numbers}) SELECT {values} FROM numbers"
        )


async def fill(services: Services, world: World, first: Sequence[str], fills: Sequence[Fill], **more: int) -> None:
    """Insert everything in one transaction. The IDs in `more` can be used in the values, too."""
    organization = await queries.find_account(services.database, world.organization)
    repository = await queries.find_repository(services.database, world.organization, world.repository)
    assert organization is not None
    assert repository is not None
    known = {
        "organization": organization.id,
        "repository": repository.id,
        "other_organization": OTHER_ORGANIZATION_ID,
        "other_repository": OTHER_REPOSITORY_ID,
        "rare": RARE_ID,
        "often": OFTEN_ID,
        "recent": now_ms() - DAY_MS,
        "bytes": "BYTEA" if services.database.name == "postgresql" else "BLOB",
        **more,
    }
    async with services.database.transaction() as tx:
        for sql in statements(first, fills, known):
            await tx.execute(sa.text(sql))
