"""Imports of boards from other tools: read a file, plan a project, and write it."""
