"""Tokens of every kind: how they are distinguished, issued, looked up, confined and revoked."""
