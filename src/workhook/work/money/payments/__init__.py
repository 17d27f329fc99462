"""Payments of invoices, and what is given back of them."""
