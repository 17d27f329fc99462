"""The audit log of an organization, for its owners."""
