"""The search over all that somebody sees."""
