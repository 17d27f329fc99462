"""What an hour costs where nobody says it of the time itself, and how time is rounded on an invoice."""
