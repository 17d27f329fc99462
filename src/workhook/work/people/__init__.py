"""Who takes part: members, clients, their invitations, organizations and their administration.

Begin with `members`.
"""
