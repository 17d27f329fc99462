"""Time tracking: weeks, entries, timers and reports."""
