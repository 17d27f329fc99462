"""The deadlines of a project by month and week."""
