"""What `render` tells its parent on standard error; apart from it, since the server does not load Typst."""

from __future__ import annotations

NO_FONT = "no font has: "
"""Begins a line; code points follow (`U+6F22`): the first of what is drawn as boxes."""
