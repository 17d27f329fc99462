"""The authorization code flow, the device flow and the refreshing of tokens."""
