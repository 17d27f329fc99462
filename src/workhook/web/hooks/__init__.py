"""Webhooks of projects and organizations, and their deliveries."""
