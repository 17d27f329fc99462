"""The billing pages: invoices, services, subscriptions, credits, and billing settings."""
