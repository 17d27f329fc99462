"""A person's notifications from all projects, and their notification settings."""
