"""Full-text search over tasks, comments, files, invoices and credit notes."""
