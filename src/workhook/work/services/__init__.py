"""What an organization sells."""
