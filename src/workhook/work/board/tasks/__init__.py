"""Tasks, which sit in columns."""
