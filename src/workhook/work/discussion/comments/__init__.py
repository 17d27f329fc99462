"""Comments on tasks and files."""
