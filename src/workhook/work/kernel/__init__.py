"""The basis of every room of the work API: access, events of changes, people, quotas, days, pages of lists.

Begin with `access`: it finds a record and the caller's role in its project.
"""
