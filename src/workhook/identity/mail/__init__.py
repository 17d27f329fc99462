"""Mail: outgoing messages, queued in the transaction of the change they report, and facts about recipients."""
