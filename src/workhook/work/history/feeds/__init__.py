"""Calendar subscriptions: the due dates of one project, or of all tasks assigned to a person."""
