"""What the administrator of a server does with accounts, and how an organization is deleted.

Begin with `accounts`. `deletion` hides an organization, `emptying` removes what it had.
"""
