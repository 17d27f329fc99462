"""Area A, the work-management API: a folder a resource."""
