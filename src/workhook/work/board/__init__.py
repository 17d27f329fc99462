"""Projects, their columns and tasks, and the pushes that close tasks.

Start reading at `tasks/schemas`, then `tasks/actions`.
"""
