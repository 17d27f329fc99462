"""Time entries, called timesheets, and running timers."""
