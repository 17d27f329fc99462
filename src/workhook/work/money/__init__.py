"""Services, subscriptions and credits; invoices, payments and credit notes; the settings of their parties.

Begin with `invoices/schemas`; `kernel/settings` has the settings that everything falls back on, and `billing` changes
them.
"""
