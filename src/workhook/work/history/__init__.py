"""Reading across rooms: activity and its stream, feeds, notifications, search, lists of all projects together,
reports on time, and the trash.

Begin with `activity/queries`.
"""
