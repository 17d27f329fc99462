"""Invitations to organizations and repositories, and their people, in the format that GitHub's clients use."""
