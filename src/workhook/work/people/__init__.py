"""Who takes part: members, clients and their invitations.

Begin with `members`.
"""
