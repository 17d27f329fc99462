"""Credit notes: what is taken back of an invoice that was sent."""
