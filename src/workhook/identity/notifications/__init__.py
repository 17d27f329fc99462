"""Notifications: what somebody is told of, each a row in the commit of what it tells."""
