"""`events`: one row for everything that happened. `event_keys`: the publishers' own ids, for 24 hours."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import GROWS, BigId, Millis, metadata, partial_index

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("account_id", sa.BigInteger, nullable=False),  # the organization or user it belongs to
    sa.Column("repository_id", sa.BigInteger),  # null: it happened to the account itself
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("action", sa.Text),
    sa.Column("payload", sa.LargeBinary, nullable=False),  # read it with `payloads.from_stored`
    sa.Column("size", sa.BigInteger, nullable=False),  # of the payload, so that large ones are not loaded to be counted
    sa.Column("created_at", Millis, nullable=False, index=True),
    sa.Column("actor_id", sa.BigInteger),  # the account that did it; null: Workhook itself
    sa.Column("installation_id", sa.BigInteger),  # of the app whose token did it
    # Whether it is shown among what happened in the project: not if it was made for one hook, or is about hooks.
    sa.Column("listed", sa.Boolean, nullable=False, server_default=sa.true()),
    # Whether somebody published it: then its name and its payload say what the publisher wrote.
    sa.Column("published", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("traceparent", sa.Text),  # the trace of the request that did it, as its deliveries name it
    sa.Index("ix_events_name", "repository_id", "name", "listed", "id"),
    sqlite_autoincrement=True,
    info={GROWS: True},
)
# What happened in a project, in order.
activity_index = partial_index("ix_events_activity", events.c.repository_id, events.c.id, where=events.c.listed)
# What happened to an account itself.
partial_index("ix_events_account", events.c.account_id, events.c.id, where=events.c.repository_id.is_(None))
# What somebody did there, event by event.
partial_index(
    "ix_events_actor", events.c.repository_id, events.c.actor_id, events.c.name, events.c.id, where=events.c.listed
)

event_keys = sa.Table(
    "event_keys",
    metadata,
    sa.Column("scope", sa.Text, primary_key=True),  # r{repository_id} or o{account_id}
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("digest", sa.LargeBinary, nullable=False),  # SHA-256 of what was published under the key
    sa.Column("event_id", sa.BigInteger, nullable=False),
    sa.Column("created_at", Millis, nullable=False, index=True),
)
