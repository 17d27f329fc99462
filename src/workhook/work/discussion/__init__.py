"""Comments on tasks and files, replies, and mentions.

Start with `schemas`.
"""
