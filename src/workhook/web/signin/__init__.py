"""Signing in, and consent to apps."""
