"""Sends the messages that wait in `mail_messages` to the mail server, beside the deliveries of webhooks."""
