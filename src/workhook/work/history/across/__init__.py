"""Lists of what the caller sees in all projects together."""
