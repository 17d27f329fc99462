"""Fills an empty database with many rows: two organizations with some members in common, and their data."""
