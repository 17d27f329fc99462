"""The work API: a folder a resource."""
