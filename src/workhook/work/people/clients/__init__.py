"""People from outside who look into a project."""
