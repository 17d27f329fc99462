"""What can happen (the catalogue) and how it is recorded (the outbox)."""
