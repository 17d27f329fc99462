"""The event catalogue, and the outbox that records events."""
