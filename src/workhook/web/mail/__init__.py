"""E-mail messages, and the page to unsubscribe."""
