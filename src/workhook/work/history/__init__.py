"""Reading across rooms: activity and its stream, feeds, search, and lists of all projects together.

Begin with `activity/queries`.
"""
