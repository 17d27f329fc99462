"""Benchmarks of the design's targets: `python -m bench`.

Every figure is the ratio of two measurements from the same run.
"""
