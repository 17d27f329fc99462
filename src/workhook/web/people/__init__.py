"""Who is in an organization, who is invited, and what became of the visitor's own invitations."""
