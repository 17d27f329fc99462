"""The webhooks of a project or an organization: what they are sent, and how that went."""
