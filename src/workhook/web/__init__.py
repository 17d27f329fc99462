"""Pages for people: those who have signed in, those who are about to, and readers of the guide."""
