"""What the visitor was told of."""
