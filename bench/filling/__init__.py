"""Fills an empty database with many rows: two organizations whose people overlap, and what belongs to them."""
