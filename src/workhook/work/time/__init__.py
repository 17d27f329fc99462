"""Timers and entries, the rates they are billed at, and the budgets they count against.

Begin with `timesheets/schemas`.
"""
