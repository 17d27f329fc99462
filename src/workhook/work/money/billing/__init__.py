"""Billing settings: who bills and who pays, and what new invoices begin with."""
