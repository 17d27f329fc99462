"""Invoices from draft to paid."""
