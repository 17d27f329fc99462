"""What was deleted in a project."""
