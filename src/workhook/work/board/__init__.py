"""Projects, their columns and tasks, and the pushes that close tasks.

Begin with `tasks/schemas`, then `tasks/actions`.
"""
