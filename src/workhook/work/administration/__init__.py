"""What the administrator of a server does with accounts, and how an organization is deleted.

Begin with `accounts/actions`. In `organizations`, `deletion` hides an organization and `emptying` removes what it had.
"""
