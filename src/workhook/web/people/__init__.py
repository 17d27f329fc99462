"""The people of organizations and projects, and invitations."""
