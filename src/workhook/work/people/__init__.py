"""The people of a project: members, clients and their invitations.

Start with `members`.
"""
