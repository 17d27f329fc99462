"""Alembic's environment and the schema versions."""
