"""Mentions: whom a comment or a reply names, as in `@ada`."""
