"""The pages of those who administer the server."""
