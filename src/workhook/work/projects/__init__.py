"""Projects: what Area B calls repositories. Everything else of Area A hangs on one."""
