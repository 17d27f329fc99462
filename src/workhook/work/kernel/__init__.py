"""Shared foundations of the work API: access, change events, people, quotas, days and lists.

Start with `access`, which finds a record and the caller's role in its project.
"""
