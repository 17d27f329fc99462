"""The documentation: the guide built from `docs/`, and the API reference."""
