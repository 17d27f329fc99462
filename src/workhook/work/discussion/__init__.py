"""Comments on tasks and files, replies, and whom they mention.

Begin with `schemas`.
"""
