"""Subscriptions to services."""
