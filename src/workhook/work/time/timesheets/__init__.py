"""Time spent on tasks, and running timers."""
