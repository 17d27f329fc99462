"""Read models that span the other packages.

They cover activity and its stream, feeds, notifications, search, lists across projects, time reports, and the trash.

Begin with `activity/queries`.
"""
