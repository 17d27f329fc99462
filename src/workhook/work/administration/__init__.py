"""Administration of a server's accounts, and deletion of organizations.

Start with `accounts`. `deletion` hides an organization, and `emptying` removes its data.
"""
