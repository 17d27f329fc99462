"""What an hour costs where nobody says it of the time itself, how time is rounded on an invoice, and budgets."""
