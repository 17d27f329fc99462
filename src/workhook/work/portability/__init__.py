"""Moving work in and out: imports from other tools, and export and import of an organization as an archive.

Begin with `imports/plan`.
"""
