"""The settings of an account and of a project that invoices and time fall back on, and the types they are made of.

Begin with `schemas`. `money/billing` changes them and finds the value that counts.
"""
