"""The event catalog, and the outbox that records events."""
