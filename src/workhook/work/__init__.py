"""The work API: ten layers, from `kernel` to `administration` (docs/contributors/architecture.md)."""
