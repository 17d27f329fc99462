"""The webhook API: webhooks, their deliveries, and event publishing."""
