"""Pages for people who have signed in."""
