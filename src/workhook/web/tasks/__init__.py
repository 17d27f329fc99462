"""The page of a task, with its comments and timers."""
