"""Invoices, from draft to payment."""
