"""The board of a project: its columns and cards."""
