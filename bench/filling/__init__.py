"""Fills an empty database with many rows: two organizations that share some members, and their data."""
