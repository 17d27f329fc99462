"""Colours of labels: what a project here has for those of another service."""

from __future__ import annotations

import colorsys
import re
from typing import get_args

from workhook.work.board.projects.schemas import LabelColor

COLORS: tuple[LabelColor, ...] = get_args(LabelColor)
_DEGREES: dict[LabelColor, int] = {
    "red": 0, "orange": 28, "yellow": 50, "lime": 80, "green": 130, "teal": 175, "sky": 197, "blue": 220, "purple": 262,
    "pink": 315,
}  # fmt: skip
_HEX = re.compile(r"#?([0-9A-Fa-f]{2})([0-9A-Fa-f]{2})([0-9A-Fa-f]{2})")
_GREY_BELOW = 0.12  # of its saturation


def nearest_color(text: str) -> LabelColor | None:
    """Return the colour whose hue is nearest to that of `d73a4a`; None for greys and other texts."""
    found = _HEX.fullmatch(text.strip())
    if found is None:
        return None
    hue, saturation, _ = colorsys.rgb_to_hsv(*(int(part, 16) / 255 for part in found.groups()))
    if saturation < _GREY_BELOW:
        return None
    return min(COLORS, key=lambda color: abs((hue * 360 - _DEGREES[color] + 180) % 360 - 180))
