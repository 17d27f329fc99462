"""What the messages of commits do to tasks, when they are pushed to the default branch."""
