"""Timers and time entries, the rates they are billed at, and the budgets they count towards.

Start reading at `timesheets/schemas`.
"""
