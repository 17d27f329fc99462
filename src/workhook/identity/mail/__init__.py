"""Mail: messages that wait to be sent, each a row in the commit of what it tells, and what is known of an address."""
