"""The administration of a server's accounts, and the deletion of organizations.

Begin with `accounts`. `deletion` hides an organization, `emptying` removes its data.
"""
