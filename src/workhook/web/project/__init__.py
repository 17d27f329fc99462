"""The settings of a project, for its admins: what it is called, who is in it, and its end."""
