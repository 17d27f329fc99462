"""Lists across all projects that the caller can see."""
