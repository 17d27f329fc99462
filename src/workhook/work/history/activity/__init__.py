"""The activity of a project, as a list and as a live stream."""
