"""Owners of each row: the accounts (organizations or people) that it belongs to or is about.

A table without an entry in `OWNERS` fails the tests, so every new table must state how its rows are attributed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.walls.dump import Dump, Row

Accounts = Iterator[int | None]


class Find:
    """Looks up referenced rows in several dumps, so that deleted rows keep their owners."""

    def __init__(self, *dumps: Dump) -> None:
        self._dumps = dumps
        self._logins: dict[str, int] = {}
        for dump in dumps:
            self._logins |= {row["login_key"]: row["id"] for row in dump["accounts"].values()}

    def row(self, table: str, key: object) -> Row | None:
        return next((dump[table][(key,)] for dump in self._dumps if (key,) in dump[table]), None)

    def of(self, table: str, key: object) -> Accounts:
        row = self.row(table, key)
        if row is not None:
            yield from OWNERS[table](row, self)

    def login(self, key: str) -> int | None:
        return self._logins.get(key)


Rule = Callable[[Row, Find], Accounts]


def _columns(*names: str) -> Rule:
    """Return a rule that takes the accounts from these columns."""

    def rule(row: Row, find: Find) -> Accounts:
        for name in names:
            yield row[name]

    return rule


def _through(*references: tuple[str, str], also: tuple[str, ...] = ()) -> Rule:
    """Return a rule that takes the owners of referenced rows (pairs of column and table) and the columns `also`."""

    def rule(row: Row, find: Find) -> Accounts:
        yield from _columns(*also)(row, find)
        for column, table in references:
            yield from find.of(table, row[column])

    return rule


def _of_key(row: Row, find: Find) -> Accounts:
    number = int(row["scope"][1:])
    if row["scope"].startswith("r"):
        yield from find.of("projects", number)
    else:
        yield number


def _of_failures(row: Row, find: Find) -> Accounts:
    """Failures are counted by login, by user and by address. An e-mail address cannot be attributed to anyone."""
    kind, whose, *_ = row["key"].split(":")
    yield int(whose) if kind in ("user", "place") and whose.isdigit() else find.login(whose)


def _no_owner(row: Row, find: Find) -> Accounts:
    return iter(())


_repository = ("repository_id", "projects")
_app = ("app_id", "apps")
_of_repository = _through(_repository)
_of_app = _through(_app)
_of_user_and_app = _through(_app, also=("user_id",))

OWNERS: dict[str, Rule] = {
    "account_billing": _columns("account_id"),
    "accounts": _columns("id"),
    "app_keys": _of_app,
    "app_secrets": _of_app,
    "apps": _columns("account_id"),
    "arrivals": _through(("hook_id", "hooks")),
    "audit_log": _through(_repository, also=("account_id",)),
    "authorization_codes": _of_user_and_app,
    "billing_logos": _columns("account_id"),
    # The row is also about the user who filtered the board.
    "board_filters": _through(_repository, also=("user_id",)),
    # The row is also about the user who subscribed to the calendar.
    "calendar_feeds": _through(_repository, also=("user_id",)),
    "clients": _of_repository,
    # The row is also about the user added to the project.
    "collaborators": _through(_repository, also=("user_id",)),
    "closing_commits": _through(("task_id", "tasks")),
    "columns": _of_repository,
    "receivers": _through(("hook_id", "hooks")),
    "redeliveries": _through(("hook_id", "hooks")),
    "deliveries": _through(("hook_id", "hooks"), ("event_id", "events"), _repository),
    "device_codes": _of_user_and_app,
    "dispatches": _through(("hook_id", "hooks"), ("event_id", "events")),
    "event_keys": _of_key,
    "events": _through(_repository, also=("account_id",)),
    "file_comment_replies": _of_repository,
    "file_comments": _of_repository,
    "files": _of_repository,
    "folders": _of_repository,
    "grants": _of_user_and_app,
    "hooks": _through(_repository, also=("account_id",)),
    "idempotency_keys": _through(("token_id", "tokens")),
    "identities": _columns("user_id"),
    "import_links": _through(_repository, also=("account_id",)),
    "installation_repositories": _through(_repository, ("installation_id", "installations")),
    "installations": _columns("account_id"),
    # Belongs to the inviting account. The invited user owns the membership only after accepting.
    "invitations": _columns("account_id"),
    "invoice_numbers": _columns("account_id"),
    "invoice_year_numbers": _columns("account_id"),
    "credit_note_numbers": _columns("account_id"),
    "credit_notes": _through(_repository, also=("account_id",)),
    "payments": _through(_repository),
    "invoices": _through(_repository, also=("account_id",)),
    "key_check": _no_owner,
    "lanes": _through(("hook_id", "hooks")),
    "memberships": _columns("organization_id", "user_id"),
    # Belongs to the sending account, like notifications.
    "mail_messages": _through(_repository, also=("account_id",)),
    "mail_recipients": _columns("user_id"),
    # The row of `mentions` is also about the mentioned user and the author, that of `member_rates` about its user.
    "member_rates": _columns("account_id", "user_id"),
    "mentions": _through(_repository, also=("user_id", "author_id")),
    # Belongs to the sending account, like invitations: the recipient has done nothing.
    "notifications": _through(_repository, also=("account_id",)),
    "notification_settings": _columns("user_id"),
    "passwords": _columns("user_id"),
    "administrators": _columns("user_id"),
    "probe": _no_owner,
    "project_billing": _of_repository,
    "project_rates": _through(_repository, also=("user_id",)),
    "projects": _columns("account_id"),
    "rate_windows": _no_owner,  # numbers of callers; these tests run without rate limits
    "refresh_tokens": _of_user_and_app,
    "service_checkout_periods": _through(("service_checkout_id", "service_checkouts")),
    "service_checkouts": _through(_repository, ("service_id", "services")),
    "service_prices": _through(("service_id", "services")),
    "services": _columns("account_id"),
    "sent_forms": _through(("session_id", "sessions")),
    "sessions": _columns("user_id"),
    "sign_in_failures": _of_failures,
    "sign_in_links": _columns("user_id"),
    "task_assignees": _through(("task_id", "tasks"), also=("user_id",)),
    "unmatched_assignees": _of_repository,
    "task_blockers": _through(("task_id", "tasks"), ("blocker_id", "tasks")),
    "task_numbers": _of_repository,
    "task_buckets": _through(("column_id", "columns")),
    "task_comments": _of_repository,
    "task_credits": _of_repository,
    "tasks": _of_repository,
    "timesheet_changes": _of_repository,
    "timesheet_sums": _of_repository,
    "timesheets": _of_repository,
    "tokens": _through(("installation_id", "installations"), also=("user_id", "account_id")),
    "worker_generation": _no_owner,
    "workers": _no_owner,
}


def rows_of(dump: Dump, accounts: frozenset[int]) -> Dump:
    """Return the rows that belong to any of these accounts."""
    find = Find(dump)
    return {
        table: {key: row for key, row in rows.items() if not accounts.isdisjoint(OWNERS[table](row, find))}
        for table, rows in dump.items()
    }
