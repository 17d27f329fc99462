"""The hook tables. Each hook has a lane (queue). A dispatch is one event for one hook; its attempts are deliveries."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import GROWS, Millis, numbered_table, partial_index, plain_table

hooks = plain_table(
    "hooks",
    sa.Column("id", sa.Integer, primary_key=True),  # below 2^31, because clients store it in 32 bits
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id")),  # null: of an organization
    sa.Column("active", sa.Boolean, nullable=False),
    sa.Column("events", sa.Text, nullable=False),  # JSON array
    sa.Column("config", sa.Text, nullable=False),  # JSON object of non-secret settings
    sa.Column("secret", sa.LargeBinary),  # sealed by the vault, like previous_secret and password
    sa.Column("previous_secret", sa.LargeBinary),
    sa.Column("previous_secret_until", Millis),
    sa.Column("password", sa.LargeBinary),
    sa.Column("app_id", sa.BigInteger),  # the OAuth app that created it
    sa.Column("installation_id", sa.BigInteger),  # the installation that created it
    sa.Column("version", sa.BigInteger, nullable=False),  # incremented on every change
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.Index("ix_hooks_repository_id", "repository_id"),
    sa.Index("ix_hooks_account_id", "account_id"),
    sqlite_autoincrement=True,
)
# Hooks of an organization itself, and hooks created by apps in it: few among the many of its repositories.
partial_index("ix_hooks_organization", hooks.c.account_id, hooks.c.id, where=hooks.c.repository_id.is_(None))
partial_index("ix_hooks_app", hooks.c.account_id, hooks.c.id, where=hooks.c.app_id.is_not(None))

lanes = plain_table(
    "lanes",
    sa.Column("hook_id", sa.Integer, sa.ForeignKey("hooks.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("failing_since", Millis),  # first failure since the last success
    sa.Column("manual_minute", sa.BigInteger, nullable=False),  # the minute that manual_count covers
    sa.Column("manual_count", sa.Integer, nullable=False),
)

# Delivering processes with their leases. `delivery.lane_assignment` assigns lanes to them.
workers = plain_table(
    "workers",
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("seen_until", Millis, nullable=False),  # expiry of the lease, by the database's clock
    sa.Column("epoch", sa.BigInteger, nullable=False),  # the generation when it joined, unique across all joins
    sa.Column("acknowledged", sa.BigInteger, nullable=False),  # the generation that it acts on
    sa.Column("finishing", sa.Text, nullable=False),  # JSON array of hooks lost by then, with attempts in flight
    sa.Column("leaving", sa.Boolean, nullable=False),  # owns no lanes from then on, only finishes attempts in flight
)

# A single row counting how often a member of `workers` joined, left or was found dead.
worker_generation = plain_table(
    "worker_generation",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("generation", sa.BigInteger, nullable=False),
)

dispatches = numbered_table(
    "dispatches",
    sa.Column("event_id", sa.BigInteger, nullable=False),
    sa.Column("hook_id", sa.Integer, nullable=False),
    sa.Column("guid", sa.Text, nullable=False),  # random, so it needs no unique index
    sa.Column("attempts", sa.Integer, nullable=False),  # finished attempts
    sa.Column("retries", sa.Integer, nullable=False),  # the number of automatic retries among them
    sa.Column("wanted", sa.Integer, nullable=False),  # attempts requested manually and not yet made
    sa.Column("next_attempt_at", Millis),  # null: nothing left to do
    sa.Column("created_at", Millis, nullable=False),
    sa.UniqueConstraint("event_id", "hook_id"),
    info={GROWS: True},
)
# Due dispatches by hook. Contains only rows with work, however many are kept.
_due = (dispatches.c.hook_id, dispatches.c.next_attempt_at, dispatches.c.id)
due_index = partial_index("ix_dispatches_due", *_due, where=dispatches.c.next_attempt_at.is_not(None))

deliveries = numbered_table(
    "deliveries",
    sa.Column("dispatch_id", sa.BigInteger, nullable=False),
    sa.Column("hook_id", sa.Integer, nullable=False),
    sa.Column("event_id", sa.BigInteger, nullable=False),
    sa.Column("repository_id", sa.BigInteger),
    sa.Column("installation_id", sa.BigInteger),
    sa.Column("guid", sa.Text, nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("action", sa.Text),
    sa.Column("delivered_at", Millis, nullable=False),
    sa.Column("throttled_at", Millis),
    sa.Column("duration_ms", sa.Integer, nullable=False),
    sa.Column("redelivery", sa.Boolean, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("status_code", sa.Integer, nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("request_headers", sa.LargeBinary, nullable=False),  # JSON; the payload is stored with the event
    sa.Column("response_headers", sa.LargeBinary, nullable=False),
    sa.Column("response_body", sa.LargeBinary, nullable=False),
    sa.Column("recorded_at", Millis),  # if much later than delivered_at, so the ID doesn't reflect it (decision 16)
    sa.Index("ix_deliveries_hook_id", "hook_id", "id"),
    sa.Index("ix_deliveries_guid", "guid"),
    sa.Index("ix_deliveries_delivered_at", "delivered_at"),
    info={GROWS: True},
)


_SUCCEEDED = sa.text("((status_code / 100) = 2)")


def succeeded(table: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return whether the response was 2xx: the indexed expression below, for `deliveries` or an alias of it."""
    hundreds = table.c.status_code // sa.literal_column("100", sa.Integer)
    return hundreds.self_group() == sa.literal_column("2", sa.Integer)


# Each combination of history filters is a few ranges of one of these indexes (see `hooks.history`).
_rest = (_SUCCEEDED, deliveries.c.redelivery, deliveries.c.id)
sa.Index("ix_deliveries_event", deliveries.c.hook_id, deliveries.c.event, *_rest)
_of_action = (deliveries.c.hook_id, deliveries.c.action, deliveries.c.event)
partial_index("ix_deliveries_action", *_of_action, *_rest, where=deliveries.c.action.is_not(None))
partial_index(
    "ix_deliveries_recorded_at", deliveries.c.hook_id, deliveries.c.id, where=deliveries.c.recorded_at.is_not(None)
)

# Requested bulk redeliveries. They run in batches, oldest first, and resume after a crash.
redeliveries = numbered_table(
    "redeliveries",
    sa.Column("hook_id", sa.Integer, sa.ForeignKey("hooks.id", ondelete="CASCADE"), nullable=False),
    sa.Column("filters", sa.Text, nullable=False),  # JSON of `history.Filters`
    sa.Column("from_id", sa.BigInteger, nullable=False),  # the start; deliveries are processed in ID order
    sa.Column("after_id", sa.BigInteger, nullable=False),  # the progress
    sa.Column("upto_id", sa.BigInteger, nullable=False),  # the newest delivery at the time of the request
    sa.Column("queued", sa.BigInteger, nullable=False),  # number of events to be redelivered
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.Column("finished_at", Millis),
)
# At most one per hook. The index also finds all unfinished jobs.
partial_index(
    "ix_redeliveries_running", redeliveries.c.hook_id, unique=True, where=redeliveries.c.finished_at.is_(None)
)
sa.Index("ix_redeliveries_hook_id", redeliveries.c.hook_id, redeliveries.c.id)

# A built-in receiver belongs to the webhook it was created for and is deleted with it.
receivers = plain_table(
    "receivers",
    sa.Column(
        "hook_id", sa.Integer, sa.ForeignKey("hooks.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    ),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),  # SHA-256 of the last path segment of its address
    sa.Column("created_at", Millis, nullable=False),
)

# The newest requests received by a receiver.
arrivals = numbered_table(
    "arrivals",
    sa.Column("hook_id", sa.Integer, sa.ForeignKey("hooks.id", ondelete="CASCADE"), nullable=False),
    sa.Column("arrived_at", Millis, nullable=False),
    sa.Column("signature", sa.Text, nullable=False),  # right | wrong | late | missing
    sa.Column("headers", sa.LargeBinary, nullable=False),  # JSON array of names and values
    sa.Column("body", sa.LargeBinary, nullable=False),  # the beginning of the body
    sa.Column("size", sa.Integer, nullable=False),  # bytes of the whole body
    sa.Index("ix_arrivals_hook_id", "hook_id", "id"),
    sa.Index("ix_arrivals_arrived_at", "arrived_at"),
)
