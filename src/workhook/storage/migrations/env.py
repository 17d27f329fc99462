"""Run by Alembic with a connection that `storage.migrate` opened."""

from alembic import context

from workhook.storage.metadata import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=connection.dialect.name == "sqlite")
with context.begin_transaction():
    context.run_migrations()
