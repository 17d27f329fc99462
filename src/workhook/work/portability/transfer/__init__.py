"""Moving an organization to another server: export to lines of JSON, and import from them."""
