"""Deleting an organization."""
