"""Shared parts of all pages: layout, texts, assets, forms, and the current visitor."""
