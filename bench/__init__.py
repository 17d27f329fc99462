"""Measures what the design promises: `python -m bench`. Every figure is a ratio of two things measured in one run."""
