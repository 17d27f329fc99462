"""The people of a project: members, clients and their invitations.

Begin with `members`.
"""
