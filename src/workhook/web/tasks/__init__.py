"""A task on a page of its own, with its comments and timers."""
