"""The settings of an organization: its name, its apps, the apps that are installed on it, and deleted projects."""
