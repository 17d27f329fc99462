"""What happened in a project: the list and the live stream."""
