"""Projects, called repositories in the webhook API. All other records of the work API belong to a project."""
