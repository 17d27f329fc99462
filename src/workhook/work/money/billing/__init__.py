"""Billing settings: the parties of invoices, and the defaults for new ones."""
