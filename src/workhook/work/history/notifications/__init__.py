"""Notifications: what a person is told of, in all projects together, and what they want to be told of."""
