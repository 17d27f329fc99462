"""A user's own settings."""
