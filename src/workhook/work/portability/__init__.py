"""Bringing work in and taking it elsewhere: imports of other tools, and an organization as an archive.

Begin with `imports/plan`.
"""
