"""Who is added to a project, and who is in an organization."""
