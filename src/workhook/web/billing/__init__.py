"""The pages of money: invoices, services, subscriptions, credits, and the settings of billing."""
