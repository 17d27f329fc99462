"""Tokens of every kind: how they are told apart, issued, looked up, confined and revoked."""
