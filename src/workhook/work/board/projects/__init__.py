"""Projects: what the webhook API calls repositories. Everything else of the work API hangs on one."""
