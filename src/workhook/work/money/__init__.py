"""Services, subscriptions and credits; invoices, payments and credit notes; billing settings.

Start reading at `invoices/schemas`. `kernel/settings` defines the default settings, and `billing` changes them.
"""
