"""Workhook: work management in which every change is a signed, stored, replayable webhook."""

__version__ = "0.1.0"
