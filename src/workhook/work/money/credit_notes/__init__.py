"""Credit notes, which reverse issued invoices fully or in part."""
