"""What every room of the work API needs: access, the event of a change, people, quotas, days, pages of lists.

Begin with `access`: it finds a record and the place of the caller in its project.
"""
