"""Area B: webhooks, their deliveries, and publishing."""
