"""What happened in a project, in words."""
