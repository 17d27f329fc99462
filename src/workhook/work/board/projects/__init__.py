"""Projects, which the webhook API calls repositories. Everything else of the work API belongs to one."""
