"""The order of tasks in their columns: ranks, buckets, and moves."""
