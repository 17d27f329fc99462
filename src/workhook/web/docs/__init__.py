"""The documentation: the guide that is made of `docs/`, and the reference of the API."""
