"""The budget of a project, and what is used of it."""
