"""Calls every list that the API offers, with each of its filters and sorts, and measures the answers."""
