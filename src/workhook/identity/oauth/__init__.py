"""The authorization code flow, the device flow and the refresh of tokens."""
