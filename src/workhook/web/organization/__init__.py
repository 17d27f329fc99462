"""The settings of an organization: its name, apps, installed apps, and deleted projects."""
