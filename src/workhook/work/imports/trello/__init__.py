"""Boards of Trello."""
