"""`events`: one row per event. `event_keys`: the publishers' own event IDs, kept for 24 hours."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import GROWS, Millis, numbered_table, partial_index, plain_table

events = numbered_table(
    "events",
    sa.Column("account_id", sa.BigInteger, nullable=False),  # the organization or user it belongs to
    sa.Column("repository_id", sa.BigInteger),  # null: it concerns the account itself
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("action", sa.Text),
    sa.Column("payload", sa.LargeBinary, nullable=False),  # read with `payloads.from_stored`
    sa.Column("size", sa.BigInteger, nullable=False),  # of the payload, to sum sizes without loading payloads
    sa.Column("created_at", Millis, nullable=False, index=True),
    sa.Column("actor_id", sa.BigInteger),  # the account that caused it; null: Workhook itself
    sa.Column("installation_id", sa.BigInteger),  # the installation of the app whose token was used
    # Whether the project's activity shows it. False if it was created for one webhook, or is about webhooks.
    sa.Column("listed", sa.Boolean, nullable=False, server_default=sa.true()),
    # Whether a publisher reported it. If so, its name and payload come from the publisher.
    sa.Column("published", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("traceparent", sa.Text),  # the trace of the causing request, passed on to deliveries
    sa.Index("ix_events_name", "repository_id", "name", "listed", "id"),
    info={GROWS: True},
)
# The activity of a project, in order.
activity_index = partial_index("ix_events_activity", events.c.repository_id, events.c.id, where=events.c.listed)
# The activity of an account itself.
partial_index("ix_events_account", events.c.account_id, events.c.id, where=events.c.repository_id.is_(None))
# The activity of one actor in a project, by event name.
partial_index(
    "ix_events_actor", events.c.repository_id, events.c.actor_id, events.c.name, events.c.id, where=events.c.listed
)

event_keys = plain_table(
    "event_keys",
    sa.Column("scope", sa.Text, primary_key=True),  # r{repository_id} or o{account_id}
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("digest", sa.LargeBinary, nullable=False),  # SHA-256 of the event published under the key
    sa.Column("event_id", sa.BigInteger, nullable=False),
    sa.Column("created_at", Millis, nullable=False, index=True),
)
