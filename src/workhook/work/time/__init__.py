"""Timers and time entries, the rates they are billed at, and the budgets they count toward.

Start reading at `timesheets/schemas`.
"""
