"""What administrators of the server do: people and organizations, whoever is in them."""
