"""Columns of a project's board."""
