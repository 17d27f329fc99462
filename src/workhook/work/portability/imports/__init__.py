"""Boards from elsewhere become projects: read a file, plan what it makes, write it."""
