"""Full-text search over tasks, comments and files."""
