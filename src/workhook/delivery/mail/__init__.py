"""Sends the messages queued in `mail_messages` to the mail server, alongside webhook deliveries."""
