"""The time that was spent in a project: the week, its entries, timers, and reports."""
