"""Services that an organization offers."""
