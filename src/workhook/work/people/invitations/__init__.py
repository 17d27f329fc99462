"""Invitations to organizations and repositories, and who is in them: asked for as GitHub's clients ask."""
