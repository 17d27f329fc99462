"""The webhook API: webhooks, their deliveries, and publishing."""
