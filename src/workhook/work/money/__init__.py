"""Services, subscriptions and credits; invoices, payments and credit notes; billing settings.

Start reading at `invoices/schemas`. `kernel/billing_settings` defines the billing settings, and `billing` changes them.
"""
