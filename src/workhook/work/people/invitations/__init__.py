"""Invitations to organizations and repositories, and their people, in the form that GitHub's clients use."""
