"""The tasks of a project as a table."""
