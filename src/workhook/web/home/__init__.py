"""What somebody sees first: their work, and an account with its projects."""
