"""Comments and replies, whom they mention, and the notifications that tell people of it.

Begin with `comments/schemas`.
"""
