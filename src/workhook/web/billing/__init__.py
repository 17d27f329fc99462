"""The pages of a project's invoices."""
