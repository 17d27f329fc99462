"""OAuth apps and apps: their registration, secrets, keys and installations."""
