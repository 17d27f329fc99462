"""Calendars that other programs subscribe to: the deadlines of one project, or of all that a person has to do."""
