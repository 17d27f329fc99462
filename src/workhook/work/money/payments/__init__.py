"""Payments of invoices, and refunds."""
