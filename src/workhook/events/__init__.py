"""The catalogue of events, and the outbox that records them."""
