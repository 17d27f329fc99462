"""What every area may use; imports nothing of the project."""
