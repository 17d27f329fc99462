"""OAuth apps and apps: registration, secrets, keys and installations."""
