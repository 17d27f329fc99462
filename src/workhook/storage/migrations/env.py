"""Alembic's environment script, which uses a connection opened by `storage.migrate`."""

from alembic import context

from workhook.storage.metadata import metadata

connection = context.config.attributes["connection"]
sqlite = connection.dialect.name == "sqlite"
# On PostgreSQL each migration is a transaction, but indexes are built outside of one (`storage.online`).
context.configure(
    connection=connection, target_metadata=metadata, render_as_batch=sqlite, transaction_per_migration=not sqlite
)
with context.begin_transaction():
    context.run_migrations()
